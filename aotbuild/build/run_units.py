"""Run the units of a plan: what is tried where, in which order, and how often.

Each attempt at a job is plain data in, plain data out (`build.attempt`).
"""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from aotbuild.build.attempt import Exited, Outcome, Request, Tell, run_attempt
from aotbuild.build.dask_client import open_cluster
from aotbuild.build.events import Listener, UnitBusy, UnitDone
from aotbuild.build.jobs import Fed, Job, Settings, make_jobs
from aotbuild.build.plan import BuildUnit, Plan
from aotbuild.build.pool import open_pool
from aotbuild.build.progress import GOLDEN, GOLDEN_SECONDS, START, Progress
from aotbuild.build.protocol import Compiled, Done, Hello, Reply
from aotbuild.build.sources import SourceTree, TracedFiles
from aotbuild.build.worker_process import job_timeout
from aotbuild.errors import PlanError
from aotbuild.format.target import HOST
from aotbuild.store.build_store import BuildStore, open_store
from aotbuild.toolchains.exact import ExactToolchain
from aotbuild.toolchains.project import project_requirements

# Runs one attempt at a job; CancelledError if the build was stopped.
Attempt = Callable[[Request, Tell], Outcome]

VARIABLE = "AOTBUILD_EXECUTOR"
LOCAL = "local"
SHRINK_VARIABLE = "AOTBUILD_SHRINK"


def chosen_executor(given: str | None) -> str:
    """Return where a build compiles: what `--executor` says, or AOTBUILD_EXECUTOR, or `local`."""
    return given or os.environ.get(VARIABLE) or LOCAL


def run_units(
    plan: Plan,
    sources: SourceTree,
    blobs: Path,
    listener: Listener,
    executor: str | None = None,
    timeout: float | None = None,
    golden_timeout: float = GOLDEN_SECONDS,
    jobs: int | None = None,
    traced: TracedFiles | None = None,
    build_store: BuildStore | None = None,
) -> list[UnitDone]:
    """Compile every unit of a plan, in the plan's order of results.

    Behind the result of a unit are those of the units that `feedback:` added to it. Environments of
    its toolchains must exist (`make_environments`). `listener` gets each event, possibly from
    several threads. `timeout` is in seconds for one job, by default that of
    `job_timeout`; `golden_timeout` for calling its function where `golden` is `auto`. `executor`
    is what `--executor` says: `local` or a cluster; by default AOTBUILD_EXECUTOR, or processes of
    this machine. At most `jobs` attempts run at a time, by default as many as there are for a
    cluster, and `pool.most_jobs` here. `traced` gets the files of the project that were imported.
    `build_store` is the store, by default that of the environment.
    """
    build_store = build_store or open_store(os.environ)
    timeout = timeout or job_timeout(os.environ)
    traced = traced or TracedFiles()
    hello = _hello(plan, sources, blobs, build_store)
    tasks = [Task(*job) for job in make_jobs(plan.units)]

    at_most = len(tasks), jobs
    with _opened(hello, plan, sources, executor, at_most, build_store, listener) as (
        attempt,
        threads,
    ):
        runner = _Runner(
            Schedule(tasks),
            attempt,
            listener,
            timeout,
            golden_timeout,
            is_shrink_on(os.environ),
            traced,
            build_store,
        )
        futures = [threads.submit(runner.run_next) for _ in tasks]
        results = [result for future in futures for result in future.result()]
    # By identity: to Python, units with the static values 1 and True are equal.
    done: dict[int, list[UnitDone]] = {}
    for result in results:
        done.setdefault(id(result.unit.first or result.unit), []).append(result)
    return [result for unit in plan.units for result in done[id(unit)]]


@contextmanager
def _opened(
    hello: Hello,
    plan: Plan,
    sources: SourceTree,
    executor: str | None,
    at_most: tuple[int, int | None],
    build_store: BuildStore,
    listener: Listener,
) -> Iterator[tuple[Attempt, Executor]]:
    """Yield what runs one attempt, and the executor whose threads wait for it.

    `at_most` has the number of tasks, and how many may run at a time if that is given.
    """
    most, jobs = at_most
    chosen = chosen_executor(executor)
    if chosen == LOCAL:
        fetch = build_store.fetch
        with open_pool(hello, sources.import_root, most, jobs, fetch) as (pool, threads):
            yield partial(run_attempt, pool), threads
        return
    if not chosen.startswith("dask://") or "@" in chosen:
        # A URL with a password is not shown: builds print where they run.
        found = "a URL with an @" if "@" in chosen else repr(chosen.partition("?")[0])
        msg = (
            f"executor: expected {LOCAL} or dask://HOST:PORT, found {found} (--executor, or "
            f"{VARIABLE})"
        )
        raise PlanError(msg)
    project = project_requirements(sources.root)
    toolchains = {t: ExactToolchain.of(t, project) for t in plan.environment.toolchains}
    # Only one unit says so, until it is over.
    first = plan.units[0]
    listener(UnitBusy(first, f"connecting to {chosen}", waits=True))
    with open_cluster(chosen, hello, sources, toolchains, most, jobs) as (cluster, threads):
        listener(UnitBusy(first, ""))
        yield cluster.attempt, threads


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

    Other settings need another process, so a thread keeps to those of its last task while there are
    more of them. Then come those that the fewest threads work on.
    """

    def __init__(self, tasks: Iterable[Task]) -> None:
        self._waiting = list(tasks)
        self._at_work: Counter[Settings] = Counter()
        self._lock = threading.Lock()

    def take(self, last: Settings | None) -> Task:
        """Return the next task for a thread whose last task had these settings."""
        with self._lock:
            same = [task for task in self._waiting if task.settings == last]
            few = min(self._waiting, key=lambda task: self._at_work[task.settings])
            task = same[0] if same else few
            self._waiting.remove(task)
            self._at_work[task.settings] += 1
            return task

    def finish(self, task: Task) -> None:
        """Note that a task is done."""
        with self._lock:
            self._at_work[task.settings] -= 1


@dataclass
class _Runner:
    """Runs the tasks of a schedule. Without `shrink`, no executable is rewritten.

    `attempt` gives one job to one worker. `unsafe` are functions whose golden inputs once killed a
    worker. `spent` has the seconds that each function's golden outputs took so far.
    """

    schedule: Schedule
    attempt: Attempt
    listener: Listener
    timeout: float
    golden_timeout: float
    shrink: bool
    traced: TracedFiles
    build_store: BuildStore
    unsafe: set[str] = field(default_factory=set)
    spent: dict[str, float] = field(default_factory=dict)
    # The task that this thread had last.
    _thread: threading.local = field(default_factory=threading.local)

    def run_next(self) -> list[UnitDone]:
        """Take the next task and run it to its end."""
        last: Task | None = getattr(self._thread, "last", None)
        task = self.schedule.take(last.settings if last else None)
        self._thread.last = task
        try:
            return self._run(task)
        finally:
            self.schedule.finish(task)

    def _run(self, task: Task) -> list[UnitDone]:
        """Run one task. When its worker exits, the unit at work fails and the others go on."""
        waiting = {str(unit.target): unit for unit in task.units}
        progress = Progress(waiting, self.listener, task.job.golden)
        while progress.is_unfinished:
            progress.restart()
            self._attempt(task, progress)
        if progress.fed is None or all(result.failure for result in progress.results):
            return progress.results
        return progress.results + self._run(task.after_feedback(progress.fed))

    def _attempt(self, task: Task, progress: Progress) -> None:
        job = self._only(task.job, progress)
        request = Request(task.settings, job, self.timeout, self.golden_timeout)
        outcome = self.attempt(request, partial(self._receive, progress))
        self.spent[job.name] = self.spent.get(job.name, 0.0) + outcome.golden_seconds
        if outcome.exited is None:
            progress.end()
        else:
            self._exited(outcome.exited, outcome.overtime, request, progress)

    def _receive(self, progress: Progress, message: Reply) -> None:
        if isinstance(message, Compiled):
            self.traced.files.update(message.imported)
        if isinstance(message, Done):
            self.build_store.store.made.update(message.made)
            self.build_store.store.used.update(message.used)
            self.traced.stored.update(message.blobs)
            for kind, text in message.problems.items():
                self.build_store.store.tell(kind, text)
        progress.receive(message)

    def _exited(
        self, exited: Exited, overtime: str | None, request: Request, progress: Progress
    ) -> None:
        job = request.job
        if not exited.started:
            progress.stage = START
        # One that took too long has spent the time of all, and the reason says that instead.
        if progress.stage == GOLDEN and not overtime:
            self.unsafe.add(job.name)
        is_rewritten = job.shrink and request.settings.platform == HOST
        may_retry = exited.crashed and is_rewritten
        progress.worker_exited(exited.text, overtime or exited.reason, may_retry=may_retry)

    def _only(self, job: Job, progress: Progress) -> Job:
        """Return a job with the targets that its next worker compiles for."""
        golden = job.golden
        if golden == "auto" and job.name in self.unsafe:
            golden = "unsafe"
        elif golden == "auto" and self.spent.get(job.name, 0.0) > self.golden_timeout:
            golden = "slow"
        progress.is_transient |= golden != job.golden
        job = job.only(progress.targets).model_copy(update={"golden": golden})
        if self.shrink and progress.crashed.isdisjoint(progress.targets):
            return job
        return job.model_copy(update={"shrink": False})


def _hello(plan: Plan, sources: SourceTree, blobs: Path, build_store: BuildStore) -> Hello:
    environment = plan.environment
    return Hello(
        blobs=blobs.absolute(),
        store=build_store.front,
        behind=bool(build_store.behind),
        root=sources.root,
        secret_paths=(str(sources.root), sys.prefix),
        provenance={
            "aotbuild": environment.aotbuild,
            "manifest": plan.manifest.digest,
        },
    )


def is_shrink_on(environment: Mapping[str, str]) -> bool:
    """Return whether CPU executables are rewritten; PlanError if the variable is malformed."""
    text = environment.get(SHRINK_VARIABLE) or "on"
    if text not in ("on", "off", "1", "0"):
        msg = f"{SHRINK_VARIABLE}: expected on or off, found {text!r}"
        raise PlanError(msg)
    return text in ("on", "1")
