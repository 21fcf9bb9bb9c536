"""Run the units of a plan in worker processes of this machine, several at a time."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import CancelledError, Executor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from aotbuild.build.child import DEFAULT_TIMEOUT, NotStarted, Worker, WorkerExited
from aotbuild.build.jobs import Fed, Job, make_jobs
from aotbuild.build.memory_limit import check_memory
from aotbuild.build.plan import BuildUnit, Plan
from aotbuild.build.pool import WorkerPool, open_pool
from aotbuild.build.progress import GOLDEN, START, Listener, Progress, UnitDone
from aotbuild.build.protocol import Busy, GoldenStarted, Hello, Imported, ShrinkStarted
from aotbuild.build.settings import Settings
from aotbuild.build.sources import SourceTree, TracedFiles
from aotbuild.errors import PlanError
from aotbuild.spec.target import HOST
from aotbuild.store.local import default_root


@dataclass(frozen=True, eq=False)
class Task:
    """A job, the settings of the worker it needs, and its units."""

    settings: Settings
    job: Job
    units: tuple[BuildUnit, ...]

    def after_feedback(self, fed: Fed) -> Task:
        """Return the task of the next call, which gets the result of this task's."""
        units = tuple(unit.after_feedback() for unit in self.units)
        return Task(self.settings, self.job.after_feedback(fed), units)


class Schedule:
    """The tasks that no thread has begun. Safe to use from several threads.

    A thread keeps to the settings of its last task while there are more of them, because other
    settings need another process. Then come settings that no thread works on, then those with the
    most work for each thread on them. Among tasks of equal settings the longest comes first; a
    task's time is known from the same signature for another target.
    """

    def __init__(self, tasks: Iterable[Task]) -> None:
        self._waiting: dict[Settings, list[Task]] = {}
        for task in tasks:
            self._waiting.setdefault(task.settings, []).append(task)
        self._at_work: Counter[Settings] = Counter()
        self._seconds: dict[str, float] = {}
        self._usual = 1.0
        self._lock = threading.Lock()

    def take(self, last: Settings | None) -> Task:
        """Return the next task for a thread whose last task had these settings."""
        with self._lock:
            open_ones = [settings for settings, tasks in self._waiting.items() if tasks]
            settings = last if last in open_ones else max(open_ones, key=self._urgency)
            task = max(self._waiting[settings], key=self._expected)
            self._waiting[settings].remove(task)
            self._at_work[settings] += 1
            return task

    def finish(self, task: Task, seconds: float) -> None:
        """Note that a task is done, and how many seconds it took."""
        with self._lock:
            self._at_work[task.settings] -= 1
            self._seconds[task.job.label] = seconds
            self._usual = sum(self._seconds.values()) / len(self._seconds)

    def _urgency(self, settings: Settings) -> tuple[bool, float]:
        work = sum(map(self._expected, self._waiting[settings]))
        return not self._at_work[settings], work / (self._at_work[settings] + 1)

    def _expected(self, task: Task) -> float:
        return self._seconds.get(task.job.label, self._usual)


SHRINK_VARIABLE = "AOTBUILD_SHRINK"
# For calling a function with golden inputs, in seconds.
GOLDEN_TIMEOUT = 60.0


def run_units(
    plan: Plan,
    sources: SourceTree,
    blobs: Path,
    listener: Listener,
    executor: Executor | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    golden_timeout: float = GOLDEN_TIMEOUT,
    jobs: int | None = None,
    traced: TracedFiles | None = None,
) -> list[UnitDone]:
    """Compile every unit of a plan, in the plan's order of results.

    Behind the result of a unit are those of the units that `feedback:` added to it.
    The environments of its toolchains must exist (`make_environments`). `listener` gets each event,
    possibly from several threads. `timeout` is in seconds for one job, `golden_timeout` for calling
    its function where `golden` is `auto`. At most `jobs` workers run at a time, by default
    `pool.most_jobs`. The threads of `executor`, if given, wait for them. `traced` gets the files of
    the project that were imported.
    """
    hello = _hello(plan, sources, blobs)
    tasks = [Task(*job) for job in make_jobs(plan.units)]
    with open_pool(hello, sources.import_root, len(tasks), executor, jobs) as (pool, threads):
        memory = plan.manifest.memory
        shrink = may_shrink(os.environ)
        runner = _Runner(
            *(Schedule(tasks), pool, listener, memory, timeout, golden_timeout, shrink),
            traced=traced or TracedFiles(),
        )
        futures = [threads.submit(runner.run_next) for _ in tasks]
        # By identity: to Python, units with the static values 1 and True are equal.
        done: dict[int, list[UnitDone]] = {}
        for result in (result for future in futures for result in future.result()):
            done.setdefault(id(result.unit.first or result.unit), []).append(result)
    return [result for unit in plan.units for result in done[id(unit)]]


@dataclass
class _Runner:
    """Runs the tasks of a schedule. Without `shrink`, no executable is rewritten.

    `memory` is the manifest's `memory:`. `unsafe` are functions whose golden inputs killed a worker
    once. `spent` has the seconds that each function's golden outputs took so far.
    """

    schedule: Schedule
    pool: WorkerPool
    listener: Listener
    memory: str
    timeout: float
    golden_timeout: float
    shrink: bool
    traced: TracedFiles
    unsafe: set[str] = field(default_factory=set)
    spent: dict[str, float] = field(default_factory=dict)
    # What this thread did last.
    _thread: threading.local = field(default_factory=threading.local)

    def run_next(self) -> list[UnitDone]:
        """Take the next task and run it to its end."""
        task = self.schedule.take(getattr(self._thread, "last", None))
        self._thread.last = task.settings
        started = time.monotonic()
        try:
            return self._run(task)
        finally:
            self.schedule.finish(task, time.monotonic() - started)

    def _run(self, task: Task) -> list[UnitDone]:
        """Run one task. When its worker exits, the unit at work fails and the others go on."""
        waiting = {str(unit.target): unit for unit in task.units}
        check = partial(check_memory, mode=self.memory)
        progress = Progress(waiting, self.listener, check, task.job.golden)
        while progress.is_unfinished:
            progress.restart()
            try:
                self._with_worker(task, progress)
            except NotStarted as err:
                progress.stage = START
                progress.worker_exited(str(err), str(err).partition("\n")[0])
        if progress.fed is None or all(result.failure for result in progress.results):
            return progress.results
        return progress.results + self._run(task.after_feedback(progress.fed))

    def _with_worker(self, task: Task, progress: Progress) -> None:
        worker = self.pool.take(task.settings)
        limit = _Limit(worker, self.golden_timeout)
        job = self._only(task.job, progress)
        try:
            self._run_once(worker, limit, job, progress)
        except WorkerExited as err:
            self.pool.discard(worker, err)
            if self.pool.stopped:
                raise CancelledError from err
            if isinstance(err, NotStarted):
                raise
            if progress.stage == GOLDEN:
                self.unsafe.add(task.job.name)
            reason = limit.reason or str(err).partition("\n")[0]
            may_retry = err.crashed and job.function.shrink and task.settings.platform == HOST
            progress.worker_exited(str(err), reason, may_retry=may_retry)
        else:
            (self.pool.discard if limit.reason else self.pool.give_back)(worker)
            progress.end()

    def _run_once(self, worker: Worker, limit: _Limit, job: Job, progress: Progress) -> None:
        if worker.is_new:
            progress.busy(f"starting jax {worker.settings.toolchain.jax}")
        try:
            for message in worker.run(job, self.timeout):
                if isinstance(message, GoldenStarted) and job.golden == "auto":
                    limit.start()
                if isinstance(message, ShrinkStarted):
                    limit.restart()
                if isinstance(message, Busy):
                    progress.busy(message.doing)
                elif isinstance(message, Imported):
                    self.traced.add(message.files)
                else:
                    progress.receive(message)
        finally:
            limit.stop()
            self.spent[job.name] = self.spent.get(job.name, 0.0) + limit.seconds

    def _only(self, job: Job, progress: Progress) -> Job:
        """Return a job with the targets that its next worker compiles for."""
        golden = job.golden
        if golden == "auto" and job.name in self.unsafe:
            golden = "unsafe"
        elif golden == "auto" and self.spent.get(job.name, 0.0) > self.golden_timeout:
            golden = "slow"
        job = job.only(progress.targets).model_copy(update={"golden": golden})
        if self.shrink and progress.crashed.isdisjoint(progress.targets):
            return job
        return job.with_options(shrink=False)


class _Limit:
    """Kills a worker that takes too long to call the user's function; `reason` then says so.

    `seconds` is how long the call took.
    """

    def __init__(self, worker: Worker, limit: float) -> None:
        self._worker, self._limit = worker, limit
        self._timer = threading.Timer(limit, self._end)
        self._started: float | None = None
        self.reason: str | None = None
        self.seconds = 0.0

    def start(self) -> None:
        """Start the clock."""
        self._started = time.monotonic()
        self._timer.start()

    def stop(self) -> None:
        """Stop the clock; the worker is not killed after this."""
        self._timer.cancel()
        if self._timer.ident is not None:
            self._timer.join()
        if self._started is not None:
            self.seconds = time.monotonic() - self._started

    def restart(self) -> None:
        """Give as much time again, if any is counted, without adding it to `seconds`."""
        self.stop()
        if self._started is not None:
            self._started = None
            self._timer = threading.Timer(self._limit, self._end)
            self._timer.start()

    def _end(self) -> None:
        self.reason = f"it took longer than {self._limit:g} s"
        self._worker.kill(self.reason)


def may_shrink(environment: Mapping[str, str]) -> bool:
    """Return whether executables for CPUs may be rewritten: AOTBUILD_SHRINK does not say `off`."""
    text = environment.get(SHRINK_VARIABLE) or "on"
    if text not in ("on", "off"):
        msg = f"{SHRINK_VARIABLE}: expected on or off, found {text!r}"
        raise PlanError(msg)
    return text == "on"


def _hello(plan: Plan, sources: SourceTree, blobs: Path) -> Hello:
    environment = plan.environment
    store = default_root(os.environ)
    return Hello(
        blobs=blobs.absolute(),
        store=None if store is None else store.absolute(),
        root=sources.root,
        keep=plan.manifest.keep.stages,
        secret_paths=(str(sources.root), sys.prefix),
        provenance={
            "aotbuild": environment.aotbuild,
            "manifest": plan.manifest.digest,
        },
    )
