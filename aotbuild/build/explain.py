"""Trace every signature of a plan, compile nothing, and say what tracing shows."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aotbuild.build.branches import Program, TracedSignature, deciding_names, find_programs
from aotbuild.build.jobs import Job, make_jobs
from aotbuild.build.plan import BuildUnit, Plan
from aotbuild.build.pool import WorkerPool, open_pool
from aotbuild.build.process import DEFAULT_TIMEOUT, WorkerDied
from aotbuild.build.sources import SourceTree
from aotbuild.build.toolchains.make import make_ready
from aotbuild.build.worker_init import Settings, WorkerInit
from aotbuild.errors import UnitFailure


@dataclass(frozen=True)
class Explained:
    """One signature: its notes and steps, or why its trace was refused.

    `symbolic` ones, of the portable form alone, are other traces by nature: nothing is compared.
    """

    unit: BuildUnit
    symbolic: bool = False
    steps: tuple[Any, ...] = ()
    notes: tuple[str, ...] = ()
    failure: UnitFailure | None = None

    @property
    def label(self) -> str:
        """Function and signature for people."""
        return self.unit.signature_label


@dataclass(frozen=True)
class FunctionReport:
    """What the traces of one function show.

    `programs` are those of the signatures that could be traced, one for all that differ in sizes
    only; `decided_by` names the dims and static arguments of which each alone tells them apart.
    """

    name: str
    signatures: tuple[Explained, ...]
    programs: tuple[Program, ...]
    decided_by: tuple[str, ...]


def explain(
    plan: Plan,
    sources: SourceTree,
    listener: Callable[[Explained], None],
    timeout: float = DEFAULT_TIMEOUT,
) -> tuple[FunctionReport, ...]:
    """Trace each signature once, in worker processes like those of a build; report by function.

    `listener` hears of each signature, from several threads. A trace that is refused, crashes or
    takes longer than `timeout` seconds is a failure of its signature alone.
    """
    jobs: dict[str, tuple[Settings, Job, BuildUnit]] = {}
    for settings, job, units in make_jobs(plan.units):
        # All targets of a signature are made from equal traces.
        jobs.setdefault(job.label, (settings, job.only([str(job.targets[0])]), units[0]))
    make_ready(plan.environment.toolchains)
    with tempfile.TemporaryDirectory(prefix="aotbuild-") as folder:
        # It keeps nothing, so it gets no store and no names.
        init = WorkerInit(Path(folder).absolute(), explain=True)
        with open_pool(init, sources.import_root, len(jobs)) as (pool, threads):
            futures = [threads.submit(_run, pool, *job, timeout) for job in jobs.values()]
            for future in futures:
                future.add_done_callback(lambda done: _tell(done, listener))
            found = [future.result() for future in futures]
    names = dict.fromkeys(result.unit.function.name for result in found)
    return tuple(_report(name, found) for name in names)


def _tell(done: Any, listener: Callable[[Explained], None]) -> None:
    if not done.cancelled() and done.exception() is None:
        listener(done.result())


def _run(
    pool: WorkerPool, settings: Settings, job: Job, unit: BuildUnit, timeout: float
) -> Explained:
    result = Explained(unit, bool(job.sample))
    try:
        result = _with_worker(pool, settings, job, result, timeout)
    except WorkerDied as err:
        failure = UnitFailure(unit.signature_label, "trace", str(err))
        return replace(result, failure=failure)
    return result


def _with_worker(
    pool: WorkerPool, settings: Settings, job: Job, result: Explained, timeout: float
) -> Explained:
    worker = pool.take(settings)
    try:
        for message in worker.run(job, timeout):
            result = _read(result, message)
    except WorkerDied as err:
        pool.discard(worker, err)
        raise
    pool.give_back(worker)
    return result


def _read(result: Explained, message: dict[str, Any]) -> Explained:
    if "error" in message:
        failure = UnitFailure(result.label, message["stage"], message["error"])
        return replace(result, failure=failure)
    steps = tuple(map(tuple, message["skeleton"]))
    return replace(result, steps=steps, notes=tuple(message["notes"]))


def _report(name: str, found: list[Explained]) -> FunctionReport:
    mine = tuple(result for result in found if result.unit.function.name == name)
    traced = [
        TracedSignature(result.label, _values(result.unit), result.steps)
        for result in mine
        if result.failure is None and not result.symbolic
    ]
    return FunctionReport(name, mine, find_programs(traced), deciding_names(traced))


def _values(unit: BuildUnit) -> dict[str, str]:
    values = {str(name): repr(value) for name, value in unit.statics}
    return {**{name: str(size) for name, size in unit.row}, **values}
