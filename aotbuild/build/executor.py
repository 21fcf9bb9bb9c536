"""Run jobs in worker processes, several at a time, and collect what they made."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError, Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aotbuild.build.jobs import Job, Settings, make_jobs
from aotbuild.build.plan import BuildUnit, Plan
from aotbuild.build.pool import WorkerPool
from aotbuild.build.process import WorkerDied, import_path
from aotbuild.build.sources import SourceTree
from aotbuild.errors import UnitFailure
from aotbuild.spec.function import Function
from aotbuild.spec.record import Record
from aotbuild.spec.record_json import record_from_json

DEFAULT_TIMEOUT = 3600.0


@dataclass(frozen=True)
class UnitDone:
    """A unit's end: its record and function, or why it failed."""

    unit: BuildUnit
    function: Function | None = None
    record: Record | None = None
    failure: UnitFailure | None = None


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


def _run_job(
    pool: WorkerPool,
    settings: Settings,
    job: Job,
    units: tuple[BuildUnit, ...],
    listener: Listener,
    timeout: float,
) -> list[UnitDone]:
    """Run one job to its end. When a worker dies, its unit has failed and the rest go on."""
    waiting = {str(unit.target): unit for unit in units}
    results: list[UnitDone] = []
    while waiting:
        worker, current = pool.take(settings), next(iter(waiting))
        try:
            for message in worker.run(_only(job, waiting), timeout):
                current = message.get("start") or message["target"]
                if "start" in message:
                    listener(UnitStarted(waiting[current]))
                    continue
                results.append(_read(waiting.pop(current), message))
                listener(results[-1])
        except WorkerDied as err:
            pool.discard(worker)
            if pool.stopped:
                raise CancelledError from err
            unit = waiting.pop(current)
            results.append(UnitDone(unit, failure=UnitFailure(str(unit), "compile", str(err))))
            listener(results[-1])
        else:
            pool.give_back(worker)
    return results


def _only(job: Job, waiting: Iterable[str]) -> Job:
    keep = set(waiting)
    return replace(job, targets=tuple(t for t in job.targets if str(t) in keep))


def _read(unit: BuildUnit, message: dict[str, Any]) -> UnitDone:
    if "error" in message:
        failure = UnitFailure(str(unit), message["stage"], message["error"])
        return UnitDone(unit, failure=failure)
    record = record_from_json(message["record"])
    return UnitDone(unit, Function.from_json(message["function"]), record)


def _init(plan: Plan, sources: SourceTree, blobs: Path) -> dict[str, Any]:
    environment = plan.environment
    return {
        "blobs": str(blobs),
        # Short prefixes such as / or /usr would be found by chance.
        "secret_paths": [p for p in (str(sources.root), sys.prefix) if p.count(os.sep) > 1],
        "provenance": {
            "aotbuild": environment.aotbuild,
            "jax": environment.toolchain.jax,
            "jaxlib": environment.toolchain.jaxlib,
            "manifest": plan.manifest.digest,
        },
    }
