"""Limits of a build: of a job's time, of golden outputs, and of compilers side by side.

AOTBUILD_TIMEOUT is for a whole job, GOLDEN_SECONDS for calling its function for golden outputs.
AOTBUILD_JOBS, the CPUs and the memory of this machine say how many compilers there may be.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from aotbuild.errors import PlanError
from aotbuild.format.target import is_count
from aotbuild.format.values import cut

# For calling a function with golden inputs, and comparing its executables with them; in seconds.
GOLDEN_SECONDS = 60.0

# For one job, in seconds, and the variable that sets another limit.
DEFAULT_TIMEOUT = 3600.0
TIMEOUT_VARIABLE = "AOTBUILD_TIMEOUT"
# A year; what is longer does not fit the timers of the system.
_LONGEST_TIMEOUT = 366 * 24 * 3600

JOBS_VARIABLE = "AOTBUILD_JOBS"
_ROOT = Path("/")


def job_timeout(environment: Mapping[str, str]) -> float:
    """Return how long one job may take, in seconds: AOTBUILD_TIMEOUT, or 3,600."""
    text = environment.get(TIMEOUT_VARIABLE)
    if not text:
        return DEFAULT_TIMEOUT
    if not (text.isascii() and text.isdecimal()) or not 0 < int(text) <= _LONGEST_TIMEOUT:
        expected = f"expected whole seconds from 1 to {_LONGEST_TIMEOUT}"
        msg = f"{TIMEOUT_VARIABLE}: {expected}, found {text!r}"
        raise PlanError(msg)
    return float(text)


class GoldenLimit:
    """Kills a worker that takes too long to call the user's function; `reason` then says so."""

    def __init__(self, kill: Callable[[str], None], limit: float) -> None:
        self._kill, self._limit = kill, limit
        self._timer = threading.Timer(limit, self._end)
        self.reason: str | None = None

    def start(self) -> None:
        """Start the clock."""
        self._timer.start()

    def stop(self) -> None:
        """Stop the clock; the worker is not killed after this."""
        self._timer.cancel()
        if self._timer.ident is not None:
            self._timer.join()

    def _end(self) -> None:
        self.reason = f"it took longer than {self._limit:g} s"
        self._kill(self.reason)


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
