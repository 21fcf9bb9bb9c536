"""How long two packages take to the first result of their functions, in fresh processes, in turn.

That loads and runs their code. A figure is the time from opening a package to the first result of
one executable. Importing jax and making its client do not count: no package can change them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from aotbuild.format.archives import RegularZip
from aotbuild.format.record import Record
from aotbuild.format.temporary import temporary_folder
from aotbuild.verify.fresh import run_fresh
from aotbuild.verify.jobs import Job

_CHILD = "aotbuild.verify.cold_child"
# For one executable, in seconds.
_TIMEOUT = 120.0
# Measured are the functions with the largest executables.
_MOST_FUNCTIONS = 8


@dataclass(frozen=True)
class Package:
    """An `_aot` folder and its records."""

    folder: str
    records: tuple[Record, ...]


@dataclass(frozen=True)
class Chosen:
    """What is measured: for each function its old and new executable, of one signature and target.

    `skipped` says why other functions are not measured.
    """

    pairs: dict[str, tuple[Job, Job]]
    skipped: dict[str, str]


@dataclass(frozen=True)
class Measured:
    """The milliseconds of each run by function, old and new; and why functions have none."""

    times: dict[str, tuple[list[float], list[float]]]
    skipped: dict[str, str]


@contextmanager
def unpacked(place: str) -> Iterator[str]:
    """Yield a folder, or one with what is in a wheel: installed packages are not compressed."""
    wheel, _, folder = place.rpartition(".whl/")
    if not Path(f"{wheel}.whl").is_file():
        yield place
        return
    with temporary_folder(what="diff-") as temporary, RegularZip(f"{wheel}.whl") as archive:
        for name in archive.namelist():
            if name.startswith(f"{folder}/"):
                archive.extract(name, temporary)
        yield str(temporary / folder)


def choose(old: Package, new: Package) -> Chosen:
    """Return for each function the first pair that runs here: of the highest level, as in a call.

    That it was run also means that nothing is read from a cold disk later.
    """
    candidates = _candidates(old, new)
    ran = (_run([pair[side] for _, pair in candidates]) for side in (0, 1))
    chosen: dict[str, tuple[Job, Job]] = {}
    skipped: dict[str, str] = {}
    for (function, pair), results in zip(candidates, zip(*ran, strict=True), strict=True):
        refused = [result for result in results if isinstance(result, str)]
        if refused:
            skipped.setdefault(function, refused[0])
        else:
            chosen.setdefault(function, pair)
    return Chosen(chosen, {name: why for name, why in skipped.items() if name not in chosen})


def measure(chosen: Chosen, runs: int) -> Measured:
    """Run both packages in turn, so that what slows the machine down slows both."""
    found: dict[str, tuple[list[float | str], list[float | str]]]
    found = {name: ([], []) for name in chosen.pairs}
    for number in range(runs):
        # Neither is always the second, whose files and clock rate the first has warmed up.
        for side in (number % 2, 1 - number % 2):
            results = _run([pair[side] for pair in chosen.pairs.values()])
            for name, result in zip(chosen.pairs, results, strict=True):
                found[name][side].append(result)
    skipped, times = dict(chosen.skipped), {}
    for name, sides in found.items():
        old, new = ([time for time in side if isinstance(time, float)] for side in sides)
        if len(old) == len(new) == runs:
            times[name] = old, new
        else:
            skipped[name] = next(t for side in sides for t in side if isinstance(t, str))
    return Measured(times, skipped)


def _candidates(old: Package, new: Package) -> list[tuple[str, tuple[Job, Job]]]:
    """Return pairs by function: of its first signature in common, the highest level first."""
    others = {_identity(r): r for r in new.records if not r.target.is_portable}
    first: dict[str, str] = {}
    pairs: dict[str, list[tuple[Job, Job]]] = {}
    for record in old.records:
        other, key = others.get(_identity(record)), record.signature.key()
        if other and first.setdefault(record.function, key) == key:
            pair = Job(old.folder, record), Job(new.folder, other)
            pairs.setdefault(record.function, []).append(pair)
    sizes = {name: max(pair[0].record.blob.size for pair in pairs[name]) for name in pairs}
    largest = sorted(pairs, key=lambda name: -sizes[name])[:_MOST_FUNCTIONS]
    # Records are sorted by level, upward.
    return [(name, pair) for name in largest for pair in reversed(pairs[name])]


def _identity(record: Record) -> tuple[str, str, str, str]:
    jaxlib = str(record.requires.jaxlib)
    return record.function, record.signature.key(), str(record.target), jaxlib


def _run(jobs: Sequence[Job]) -> list[float | str]:
    """Return the milliseconds of each job, or why it has none: one process for each environment."""
    groups: dict[tuple[bool, int, bool], list[int]] = {}
    for index, job in enumerate(jobs):
        groups.setdefault(job.process, []).append(index)
    found: dict[int, float | str] = {}
    for group in groups.values():
        found |= zip(group, _run_together([jobs[index] for index in group]), strict=True)
    return [found[index] for index in range(len(jobs))]


def _run_together(jobs: Sequence[Job]) -> list[float | str]:
    asked = [job.to_json() for job in jobs]
    found = run_fresh(_CHILD, asked, jobs[0].environment(os.environ), _TIMEOUT * len(jobs))
    if isinstance(found, str):
        return [found] * len(jobs)
    return [result.get("ms", result.get("refused")) for result in found]
