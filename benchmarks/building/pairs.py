"""Builds and what stands beside them, timed in turns: seconds, and ratios of the pairs."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

# What would change a build if the caller's shell had it set.
_FOREIGN = ("AOTBUILD_", "JAX_", "PIP_", "PYTHON", "XLA_")


@dataclass(frozen=True)
class Taken:
    """Seconds of one build: of the clock, and of the CPUs, in all its processes."""

    wall: float
    cpu: float


@dataclass(frozen=True)
class Ratio:
    """The median of ratios, and the lowest and the highest of them."""

    median: float
    lowest: float
    highest: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.lowest:.2f} to {self.highest:.2f})"


def taken(command: Sequence[str], folder: Path) -> Taken:
    """Run a command in a folder; its processes are over when this returns."""
    with tempfile.TemporaryFile() as said:
        before, start = os.times(), perf_counter()
        done = subprocess.run(command, cwd=folder, stdout=said, stderr=said, check=False)
        wall, after = perf_counter() - start, os.times()
        if done.returncode:
            said.seek(0)
            sys.exit(f"{folder.name}: {' '.join(command[:5])} failed\n{said.read().decode()}")
    used = after.children_user + after.children_system
    return Taken(wall, used - before.children_user - before.children_system)


def cpu_ratio(pairs: Sequence[tuple[Taken, Taken]]) -> Ratio:
    """Return the ratio of CPU times, the first over the second."""
    return _ratio([ours.cpu / theirs.cpu for ours, theirs in pairs])


def wall_ratio(pairs: Sequence[tuple[Taken, Taken]]) -> Ratio:
    """Return the ratio of wall times, the first over the second."""
    return _ratio([ours.wall / theirs.wall for ours, theirs in pairs])


def _ratio(found: Sequence[float]) -> Ratio:
    return Ratio(median(found), min(found), max(found))


@contextmanager
def variables(**values: str) -> Iterator[None]:
    """Set variables of the environment for the block, and unset what would change a build."""
    before = dict(os.environ)
    for name in [name for name in before if name.startswith(_FOREIGN)]:
        del os.environ[name]
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
