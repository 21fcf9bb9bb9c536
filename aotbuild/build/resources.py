"""How many CPUs and how much memory this process may use; containers are given less than there is.

Linux tells in /proc and in control groups of version 1 or 2 (cgroups(7)); other systems tell less.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path("/")
# Files of a group: limit, usage. Version 2, then 1.
_MEMORY = (
    ("memory.max", "memory.current"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes"),
)


def usable_cpus(root: Path = _ROOT) -> int:
    """Return how many CPUs this process may keep busy: by its affinity and its groups' quotas."""
    try:
        scheduled = len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        scheduled = os.cpu_count() or 1
    quotas = [quota for folder in _groups(root) for quota in _quotas(folder)]
    return max(1, min([scheduled, *map(math.ceil, quotas)]))


def available_memory(root: Path = _ROOT) -> int | None:
    """Return the bytes that can still be used without swapping; None where the system is silent."""
    lines = _words(root / "proc/meminfo")
    free = [int(line[1]) * 1024 for line in lines if line[0] == "MemAvailable:"]
    groups = [left for folder in _groups(root) for left in _left(folder)]
    return max(0, min([*free, *groups])) if free or groups else None


def _groups(root: Path) -> Iterator[Path]:
    """Yield the folders of every group that this process is in, and of those around them."""
    mounts = root / "sys/fs/cgroup"
    for words in _words(root / "proc/self/cgroup"):
        _, controllers, path = " ".join(words).split(":", 2)
        for mount in [mounts / name for name in (controllers, *controllers.split(","))]:
            inside = mount / path.lstrip("/")
            # In a container the path may be the host's, and only the mount's own files are there.
            yield from (p for p in (inside, *inside.parents) if p.is_relative_to(mount))


def _quotas(folder: Path) -> Iterator[float]:
    for words in _words(folder / "cpu.max"):
        if words[0] != "max":
            yield int(words[0]) / int(words[1])
    quota, period = (_number(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
    if quota and period and quota > 0:
        yield quota / period


def _left(folder: Path) -> Iterator[int]:
    for limit, usage in _MEMORY:
        most, used = _number(folder / limit), _number(folder / usage)
        if most is not None and used is not None:
            # Cached files count as used, but give way.
            yield most - used + _cached(folder)


def _cached(folder: Path) -> int:
    found = {words[0]: words[1] for words in _words(folder / "memory.stat")}
    return int(found.get("total_inactive_file", found.get("inactive_file", 0)))


def _number(path: Path) -> int | None:
    words = _words(path)
    return int(words[0][0]) if words and words[0][0].lstrip("-").isdigit() else None


def _words(path: Path) -> list[list[str]]:
    """Return the words of each line of a file; nothing where it cannot be read."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return []
    return [line.split() for line in lines if line.split()]
