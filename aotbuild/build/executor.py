"""Run jobs in worker processes, several at a time, and collect what they made."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError, Executor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from aotbuild.build.jobs import Job, Settings, make_jobs
from aotbuild.build.plan import BuildUnit, Plan
from aotbuild.build.pool import WorkerPool
from aotbuild.build.process import WorkerDied, import_path
from aotbuild.build.sources import SourceTree
from aotbuild.build.store import default_root
from aotbuild.errors import UnitFailure
from aotbuild.spec.function import Function
from aotbuild.spec.record import Record
from aotbuild.spec.record_json import record_from_json

DEFAULT_TIMEOUT = 3600.0


@dataclass(frozen=True)
class UnitDone:
    """A unit's end: its record and function, or why it failed; `notes` are for the user."""

    unit: BuildUnit
    function: Function | None = None
    record: Record | None = None
    failure: UnitFailure | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class UnitStarted:
    """A worker began to compile this unit."""

    unit: BuildUnit


Event = UnitStarted | UnitDone
Listener = Callable[[Event], None]


def ignore(event: Event) -> None:
    """Hear an event and do nothing."""
    del event


def run_units(
    plan: Plan,
    sources: SourceTree,
    blobs: Path,
    listener: Listener,
    executor: Executor | None = None,
    timeout: float = DEFAULT_TIMEOUT,
) -> list[UnitDone]:
    """Compile every unit of a plan, in the plan's order of results.

    `listener` hears each event, possibly from several threads. `timeout` is in seconds for one job.
    """
    workers = min(os.cpu_count() or 1, len(plan.units))
    pool = WorkerPool(_init(plan, sources, blobs), import_path(sources.import_root), workers)
    own = executor or ThreadPoolExecutor(workers)
    try:
        jobs = make_jobs(plan.units)
        futures = [own.submit(_run_job, pool, *job, listener, timeout) for job in jobs]
        # By label: Python takes units with the static values 1 and True for equal.
        done = {str(result.unit): result for future in futures for result in future.result()}
    except BaseException:  # Ctrl-C, for one: nobody waits for a compiler that is not wanted
        pool.stop()
        raise
    finally:
        if executor is None:
            own.shutdown(cancel_futures=True)
        pool.close()
    return [done[str(unit)] for unit in plan.units]


@dataclass
class _Progress:
    """How far one job is: units without a result, and those that a crash now would cost."""

    waiting: dict[str, BuildUnit]
    listener: Listener
    results: list[UnitDone] = field(default_factory=list)
    stage: str = "trace"
    at_work: tuple[str, ...] = ()

    def restart(self) -> None:
        """Begin again with what is waiting: all of it hangs on the trace."""
        self.stage, self.at_work = "trace", tuple(self.waiting)

    def hear(self, message: dict[str, Any]) -> None:
        """Take a message of the worker."""
        if "start" in message:
            self.stage, self.at_work = "compile", (message["start"],)
            self.listener(UnitStarted(self.waiting[message["start"]]))
            return
        self._finish(_read(self.waiting.pop(message["target"]), message))
        self.at_work = tuple(self.waiting)[:1]

    def fail(self, reason: str) -> None:
        """Give the units that were at work up."""
        for target in self.at_work:
            unit = self.waiting.pop(target)
            self._finish(UnitDone(unit, failure=UnitFailure(str(unit), self.stage, reason)))

    def _finish(self, result: UnitDone) -> None:
        self.results.append(result)
        self.listener(result)


def _run_job(
    pool: WorkerPool,
    settings: Settings,
    job: Job,
    units: tuple[BuildUnit, ...],
    listener: Listener,
    timeout: float,
) -> list[UnitDone]:
    """Run one job to its end. When a worker dies, what it was at has failed and the rest go on."""
    progress = _Progress({str(unit.target): unit for unit in units}, listener)
    while progress.waiting:
        progress.restart()
        worker = pool.take(settings)
        try:
            for message in worker.run(_only(job, progress.waiting), timeout):
                progress.hear(message)
        except WorkerDied as err:
            pool.discard(worker)
            if pool.stopped:
                raise CancelledError from err
            progress.fail(str(err))
        else:
            pool.give_back(worker)
    return progress.results


def _only(job: Job, waiting: Iterable[str]) -> Job:
    keep = set(waiting)
    return replace(job, targets=tuple(t for t in job.targets if str(t) in keep))


def _read(unit: BuildUnit, message: dict[str, Any]) -> UnitDone:
    if "error" in message:
        failure = UnitFailure(str(unit), message["stage"], message["error"])
        return UnitDone(unit, failure=failure)
    record = record_from_json(message["record"])
    function = Function.from_json(message["function"])
    return UnitDone(unit, function, record, notes=tuple(message["notes"]))


def _init(plan: Plan, sources: SourceTree, blobs: Path) -> dict[str, Any]:
    environment = plan.environment
    store = default_root(os.environ)
    return {
        "blobs": str(blobs),
        "store": None if store is None else str(store.absolute()),
        "keep": list(plan.manifest.keep.stages),
        # Short prefixes such as / or /usr would be found by chance.
        "secret_paths": [p for p in (str(sources.root), sys.prefix) if p.count(os.sep) > 1],
        "provenance": {
            "aotbuild": environment.aotbuild,
            "jax": environment.toolchain.jax,
            "jaxlib": environment.toolchain.jaxlib,
            "manifest": plan.manifest.digest,
        },
    }
