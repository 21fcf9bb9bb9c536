"""Trace every signature of a plan without compiling, and say what the traces show."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from aotbuild.build.child import WorkerExited, job_timeout
from aotbuild.build.jobs import Fed, Job, make_jobs
from aotbuild.build.plan import BuildUnit, Plan
from aotbuild.build.pool import WorkerPool, open_pool
from aotbuild.build.replies import Failed, FedBack, Reply, TraceExplained
from aotbuild.build.requests import Hello
from aotbuild.build.settings import Settings
from aotbuild.build.sources import SourceTree
from aotbuild.errors import UnitFailure
from aotbuild.format.temporary import temporary_folder

# As in `protocol.TraceExplained`.
Step = tuple[int, str, str, str]


@dataclass(frozen=True)
class Explained:
    """One signature: its notes and steps, or why its trace was refused.

    `symbolic` ones, of the portable form, are not compared: they always differ from the others.
    `fed` is what the next call gets, if that has other avals.
    """

    unit: BuildUnit
    symbolic: bool = False
    steps: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()
    failure: UnitFailure | None = None
    fed: Fed | None = None

    @property
    def label(self) -> str:
        """Function and signature for people."""
        return self.unit.signature_label

    @property
    def values(self) -> dict[str, str]:
        """The values of dims and static arguments, and the calls under feedback, as text."""
        sizes = {name: str(size) for name, size in self.unit.row}
        statics = {str(name): repr(value) for name, value in self.unit.statics}
        return sizes | statics | {"feedback": str(self.unit.fed_back)}


@dataclass(frozen=True)
class Fork:
    """Where a program first differs from the first one: what each does, `file:line in function`."""

    first: str
    other: str
    line: str
    remark: str = ""


@dataclass(frozen=True)
class Program:
    """Signatures whose traces differ in sizes only; `fork` is None for the first program."""

    labels: tuple[str, ...]
    fork: Fork | None


@dataclass(frozen=True)
class FunctionReport:
    """What the traces of one function show.

    `programs` has one for all signatures that differ in sizes only; `decided_by` names the dims and
    static arguments that each alone decide which program it is.
    """

    name: str
    signatures: tuple[Explained, ...]
    programs: tuple[Program, ...]
    decided_by: tuple[str, ...]


def explain(
    plan: Plan,
    sources: SourceTree,
    listener: Callable[[Explained], None],
    timeout: float | None = None,
) -> tuple[FunctionReport, ...]:
    """Trace each signature once, in worker processes like those of a build; report by function.

    The environments of its toolchains must exist (`make_environments`). `listener` gets each
    signature, from several threads. A trace that is refused, crashes or takes longer than `timeout`
    seconds is a failure of its signature alone.
    """
    seconds = timeout or job_timeout(os.environ)
    jobs: dict[str, tuple[Settings, Job, BuildUnit]] = {}
    for settings, job, units in make_jobs(plan.units):
        # All targets of a signature have equal traces.
        jobs.setdefault(job.label, (settings, job.only([str(job.targets[0])]), units[0]))
    with temporary_folder() as folder:
        # Nothing is kept, so there is no store and no provenance.
        hello = Hello(blobs=folder.absolute(), explain=True)
        with open_pool(hello, sources.import_root, len(jobs)) as (pool, threads):
            futures = [threads.submit(_run, pool, *job, seconds) for job in jobs.values()]
            for future in futures:
                future.add_done_callback(lambda done: _notify(done, listener))
            found = [result for future in futures for result in future.result()]
    names = dict.fromkeys(result.unit.name for result in found)
    return tuple(_report(name, found) for name in names)


def _run(
    pool: WorkerPool, settings: Settings, job: Job, unit: BuildUnit, timeout: float
) -> list[Explained]:
    """Trace a signature, and then those that `feedback:` adds to it."""
    result = Explained(unit, bool(job.symbolic))
    try:
        result = _with_worker(pool, settings, job, result, timeout)
    except WorkerExited as err:
        failure = UnitFailure(unit.signature_label, "trace", str(err))
        return [replace(result, failure=failure)]
    if result.fed is None:
        return [result]
    following = job.after_feedback(result.fed), unit.after_feedback()
    return [result, *_run(pool, settings, *following, timeout)]


def _with_worker(
    pool: WorkerPool, settings: Settings, job: Job, result: Explained, timeout: float
) -> Explained:
    worker = pool.take(settings)
    try:
        for message in worker.run(job, timeout):
            result = _read(result, message)
    except WorkerExited as err:
        pool.discard(worker, err)
        raise
    pool.give_back(worker)
    return result


def _read(result: Explained, message: Reply) -> Explained:
    match message:
        case Failed(stage=stage, error=error, printed=printed):
            return replace(result, failure=UnitFailure(result.label, stage, error, printed))
        case FedBack(fed=fed):
            return replace(result, fed=fed)
        case TraceExplained(steps=steps, notes=notes):
            return replace(result, steps=steps, notes=notes)
    return result


def _notify(done: Any, listener: Callable[[Explained], None]) -> None:
    if not done.cancelled() and done.exception() is None:
        for result in done.result():
            listener(result)


def _report(name: str, found: list[Explained]) -> FunctionReport:
    mine = tuple(result for result in found if result.unit.name == name)
    members: dict[Any, list[Explained]] = {}
    for result in mine:
        if result.failure is None and not result.symbolic:
            members.setdefault(result.steps, []).append(result)
    programs, first = list(members.values()), next(iter(members), ())
    return FunctionReport(
        name,
        mine,
        tuple(
            Program(tuple(r.label for r in same), _fork(first, steps) if number else None)
            for number, (steps, same) in enumerate(members.items())
        ),
        _deciding_names(programs),
    )


def _deciding_names(programs: Sequence[Sequence[Explained]]) -> tuple[str, ...]:
    """Return the dims and static arguments that each alone decide which program it is."""
    if len(programs) < 2:
        return ()
    names = dict.fromkeys(name for same in programs for result in same for name in result.values)
    return tuple(name for name in names if _decides(name, programs))


def _decides(name: str, programs: Sequence[Sequence[Explained]]) -> bool:
    values = [{result.values.get(name, "") for result in same} for same in programs]
    return sum(map(len, values)) == len(set().union(*values))


def _fork(first: Sequence[Step], other: Sequence[Step]) -> Fork:
    pairs = zip(first, other, strict=False)
    shorter = min(len(first), len(other))
    at = next((i for i, (a, b) in enumerate(pairs) if a != b), shorter)
    a, b = (steps[at] if at < len(steps) else None for steps in (first, other))
    line = next((step[2] for step in (b, a) if step and step[2]), "")
    here, there = ("nothing more" if step is None else step[1] for step in (a, b))
    return Fork(here, there, line, _remark(first, other, a, b))


def _remark(first: Sequence[Step], other: Sequence[Step], a: Step | None, b: Step | None) -> str:
    counts = [Counter(step[:3] for step in steps) for steps in (first, other)]
    if counts[0].keys() == counts[1].keys() and counts[0] != counts[1]:
        step = next(step for step in counts[0] if counts[0][step] != counts[1][step])
        times = f"{counts[0][step]} times, then {counts[1][step]}"
        return f"{step[1]} {times}: a loop in Python is unrolled, one copy for each turn"
    if a and b and a[2] == b[2]:
        same = "with other inputs, dtypes or parameters" if a[1] == b[1] else "both from this line"
        return f"{same}: a choice on it, or one of the library that it calls"
    return ""
