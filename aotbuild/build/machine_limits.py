"""How many compilers this machine has room for: AOTBUILD_JOBS, its CPUs, and its memory."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from aotbuild.errors import PlanError
from aotbuild.format.target import is_count
from aotbuild.format.values import cut

JOBS_VARIABLE = "AOTBUILD_JOBS"
_ROOT = Path("/")


def most_jobs(environment: Mapping[str, str]) -> int:
    """Return how many compilers may run at a time: AOTBUILD_JOBS, or one for each usable CPU."""
    text = environment.get(JOBS_VARIABLE)
    if not text:
        return usable_cpus()
    if not is_count(text):
        msg = f"{JOBS_VARIABLE}: expected a whole number from 1 to 999,999, found {cut(text, 60)!r}"
        raise PlanError(msg)
    return int(text)


def usable_cpus(root: Path = _ROOT) -> int:
    """Return how many CPUs this process may use, by its affinity and its control groups' quotas."""
    try:
        scheduled = len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        scheduled = os.cpu_count() or 1
    quotas = [quota for folder in _groups(root) for quota in _quotas(folder)]
    return max(1, min([scheduled, *map(math.ceil, quotas)]))


def available_memory(root: Path = _ROOT) -> int | None:
    """Return the bytes that are free without swapping; None where the system does not say."""
    lines = map(str.split, _text(root / "proc/meminfo").splitlines())
    free = [int(words[1]) * 1024 for words in lines if words[:1] == ["MemAvailable:"]]
    groups = [left for folder in _groups(root) for left in _left(folder)]
    return max(0, min([*free, *groups])) if free or groups else None


def _groups(root: Path) -> Iterator[Path]:
    """Yield the folders of the control group that this process is in (cgroup v2), and its parents.

    In a container the path may be the host's, and only the mount's own files are there.
    """
    mount = root / "sys/fs/cgroup"
    for line in _text(root / "proc/self/cgroup").splitlines():
        if line.startswith("0::"):
            inside = mount / line.removeprefix("0::").lstrip("/")
            yield from (p for p in (inside, *inside.parents) if p.is_relative_to(mount))


def _quotas(folder: Path) -> Iterator[float]:
    words = _text(folder / "cpu.max").split()
    if words and words[0] != "max":
        yield int(words[0]) / int(words[1])


def _left(folder: Path) -> Iterator[int]:
    most, used = (_text(folder / name).strip() for name in ("memory.max", "memory.current"))
    if most.isdigit() and used.isdigit():
        # Cached files count as used, but the kernel drops them when needed.
        facts = dict(line.split() for line in _text(folder / "memory.stat").splitlines())
        yield int(most) - int(used) + int(facts.get("inactive_file", 0))


def _text(path: Path) -> str:
    """Return the text of a file; empty where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""
