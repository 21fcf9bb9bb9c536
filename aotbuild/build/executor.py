"""Run jobs in worker processes, several at a time, and collect what they made."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable
from concurrent.futures import CancelledError, Executor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from aotbuild.build.events import Event as Event
from aotbuild.build.events import Listener as Listener
from aotbuild.build.events import UnitDone as UnitDone
from aotbuild.build.events import UnitStarted as UnitStarted
from aotbuild.build.events import ignore as ignore
from aotbuild.build.jobs import Job, Settings, make_jobs
from aotbuild.build.plan import BuildUnit, Plan
from aotbuild.build.pool import WorkerPool
from aotbuild.build.process import Worker, WorkerDied, import_path
from aotbuild.build.progress import GOLDEN, Progress
from aotbuild.build.sources import SourceTree
from aotbuild.build.store import default_root

DEFAULT_TIMEOUT = 3600.0
GOLDEN_TIMEOUT = 60.0


def run_units(
    plan: Plan,
    sources: SourceTree,
    blobs: Path,
    listener: Listener,
    executor: Executor | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    golden_timeout: float = GOLDEN_TIMEOUT,
) -> list[UnitDone]:
    """Compile every unit of a plan, in the plan's order of results.

    `listener` hears each event, possibly from several threads. `timeout` is in seconds for one job,
    `golden_timeout` for calling its function where `golden` is `auto`.
    """
    workers = min(os.cpu_count() or 1, len(plan.units))
    pool = WorkerPool(_init(plan, sources, blobs), import_path(sources.import_root), workers)
    own = executor or ThreadPoolExecutor(workers)
    runner = _Runner(pool, listener, timeout, golden_timeout)
    try:
        jobs = make_jobs(plan.units)
        futures = [own.submit(runner.run, *job) for job in jobs]
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
class _Runner:
    """Runs jobs; `unsafe` are functions whose golden inputs killed a worker: once is enough."""

    pool: WorkerPool
    listener: Listener
    timeout: float
    golden_timeout: float
    unsafe: set[str] = field(default_factory=set)

    def run(self, settings: Settings, job: Job, units: tuple[BuildUnit, ...]) -> list[UnitDone]:
        """Run one job to its end. When a worker dies, what it was at is lost and the rest go on."""
        waiting = {str(unit.target): unit for unit in units}
        progress = Progress(waiting, self.listener, job.verify.golden)
        while progress.is_unfinished:
            progress.restart()
            worker = self.pool.take(settings)
            limit = _Limit(worker, self.golden_timeout)
            try:
                self._run_once(worker, limit, self._only(job, progress.waiting), progress)
            except WorkerDied as err:
                self.pool.discard(worker)
                if self.pool.stopped:
                    raise CancelledError from err
                if progress.stage == GOLDEN:
                    self.unsafe.add(job.name)
                progress.fail(str(err), limit.reason or str(err).partition("\n")[0])
            else:
                (self.pool.discard if limit.reason else self.pool.give_back)(worker)
                progress.end()
        return progress.results

    def _run_once(self, worker: Worker, limit: _Limit, job: Job, progress: Progress) -> None:
        try:
            for message in worker.run(job, self.timeout):
                if "golden_start" in message and job.verify.golden == "auto":
                    limit.start()
                progress.hear(message)
        finally:
            limit.stop()

    def _only(self, job: Job, waiting: Iterable[str]) -> Job:
        keep = set(waiting)
        verify = job.verify
        if verify.golden == "auto" and job.name in self.unsafe:
            verify = replace(verify, golden="unsafe")
        targets = tuple(t for t in job.targets if str(t) in keep)
        return replace(job, targets=targets, verify=verify)


class _Limit:
    """Ends a worker that takes too long to call the user's function; `reason` says that it did."""

    def __init__(self, worker: Worker, seconds: float) -> None:
        self._worker, self._seconds = worker, seconds
        self._timer = threading.Timer(seconds, self._end)
        self.reason: str | None = None

    def start(self) -> None:
        """Begin to count."""
        self._timer.start()

    def stop(self) -> None:
        """Stop counting; after this, the worker is left alone."""
        self._timer.cancel()
        if self._timer.ident is not None:
            self._timer.join()

    def _end(self) -> None:
        self.reason = f"it took longer than {self._seconds:g} s"
        self._worker.kill()


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
