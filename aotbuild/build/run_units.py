"""Run the units of a plan: where they compile, and what is tried again after a worker exited."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from aotbuild.build.dask_client import open_cluster
from aotbuild.build.job_results import COMPILE, START, JobResults
from aotbuild.build.jobs import Job, make_jobs
from aotbuild.build.plan import BuildUnit, Plan
from aotbuild.build.pool import Attempt, Ended, Tell, open_pool
from aotbuild.build.progress import Listener, UnitBusy, UnitDone
from aotbuild.build.project import SourceTree
from aotbuild.build.protocol import Done, Hello, Reply
from aotbuild.build.time_and_memory_limits import job_timeout
from aotbuild.build.worker_settings import Settings
from aotbuild.errors import PlanError
from aotbuild.format.target import HOST
from aotbuild.store.build_store import BuildStore, open_store
from aotbuild.toolchains.environments import ExactToolchain
from aotbuild.toolchains.project import project_requirements

VARIABLE = "AOTBUILD_EXECUTOR"
LOCAL = "local"
SHRINK_VARIABLE = "AOTBUILD_SHRINK"


@dataclass(frozen=True)
class BuildOptions:
    """What the command line says of a build beside its manifest.

    At most `jobs` attempts run at a time, by default as many as there are for a cluster, and as
    this machine has room for here. `executor` is `local` or a cluster, by default
    AOTBUILD_EXECUTOR, or processes of this machine. `fresh`: every function is traced.
    """

    jobs: int | None = None
    executor: str | None = None
    fresh: bool = False


_DEFAULT = BuildOptions()

# Runs one attempt at a job; CancelledError if the build was stopped.
RunAttempt = Callable[[Attempt, Tell], Ended]


@dataclass(frozen=True)
class Run:
    """The results of all units, in the plan's order, and what workers said of their jobs.

    Behind the result of a unit are those of the units that `feedback:` added to it. `stored` has
    the store's key of each blob that is an entry of it, by SHA-256.
    """

    results: list[UnitDone]
    stored: dict[str, str]


def chosen_executor(given: str | None) -> str:
    """Return where a build compiles: what `--executor` says, or AOTBUILD_EXECUTOR, or `local`."""
    return given or os.environ.get(VARIABLE) or LOCAL


def run_units(
    plan: Plan,
    sources: SourceTree,
    blobs: Path,
    listener: Listener,
    options: BuildOptions = _DEFAULT,
    build_store: BuildStore | None = None,
) -> Run:
    """Compile every unit of a plan, and write what is made into the folder `blobs`.

    Environments of its toolchains must exist (`make_environments`). `listener` gets each event,
    possibly from several threads. The store is by default that of the environment.
    """
    store = build_store or open_store(os.environ)
    shrink = {"shrink": is_shrink_on(os.environ)}
    tasks = [(s, job.model_copy(update=shrink), units) for s, job, units in make_jobs(plan.units)]
    settings = [task[0] for task in tasks]
    hello = Hello(
        blobs=blobs.absolute(),
        store=store.front,
        behind=bool(store.behind),
        root=sources.root,
        secret_paths=(str(sources.root), sys.prefix),
        provenance={"aotbuild": plan.environment.aotbuild, "manifest": plan.manifest.digest},
    )
    chosen = chosen_executor(options.executor)
    if chosen == LOCAL:
        opened = open_pool(hello, sources.import_root, settings, options.jobs, store.fetch)
    else:
        opened = _cluster(chosen, hello, plan, sources, options.jobs, listener)
    with opened as (run_attempt, threads):
        runner = _Runner(run_attempt, listener, store, job_timeout(os.environ))
        futures = [threads.submit(runner.run, *task) for task in tasks]
        results = [result for future in futures for result in future.result()]
    # By identity: to Python, units with the static values 1 and True are equal.
    done: dict[int, list[UnitDone]] = {}
    for result in results:
        done.setdefault(id(result.unit.first or result.unit), []).append(result)
    ordered = [result for unit in plan.units for result in done[id(unit)]]
    return Run(ordered, runner.stored)


@contextmanager
def _cluster(
    chosen: str, hello: Hello, plan: Plan, sources: SourceTree, jobs: int | None, listener: Listener
) -> Iterator[tuple[RunAttempt, Executor]]:
    """Yield what runs one attempt on a cluster, and the executor whose threads wait for it."""
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
    listener(UnitBusy(first, f"connecting to {chosen}"))
    with open_cluster(chosen, hello, sources, toolchains, jobs) as opened:
        listener(UnitBusy(first, ""))
        yield opened


@dataclass
class _Runner:
    """Runs jobs, each in `timeout` seconds. Safe to use from several threads."""

    run_attempt: RunAttempt
    listener: Listener
    build_store: BuildStore
    timeout: float
    stored: dict[str, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, settings: Settings, job: Job, units: tuple[BuildUnit, ...]) -> list[UnitDone]:
        """Run one job. When its worker exits, the unit at work fails and the others go on."""
        waiting = {str(unit.target): unit for unit in units}
        results = JobResults(waiting, self.listener, job.golden)
        while results.is_unfinished:
            results.restart()
            attempt = Attempt(settings, job.only(results.targets), self.timeout)
            ended = self.run_attempt(attempt, partial(self._receive, results))
            self._finish(attempt, ended, results)
        if results.fed is None or all(result.failure for result in results.done):
            return results.done
        again = tuple(unit.after_feedback() for unit in units)
        return results.done + self.run(settings, job.after_feedback(results.fed), again)

    def _receive(self, results: JobResults, message: Reply) -> None:
        with self._lock:
            if isinstance(message, Done):
                self.build_store.store.made.update(message.made)
                self.build_store.store.used.update(message.used)
                self.stored.update(message.blobs)
                for kind, text in message.problems.items():
                    self.build_store.store.tell(kind, text)
        results.receive(message)

    def _finish(self, attempt: Attempt, ended: Ended, results: JobResults) -> None:
        """Take how an attempt ended: which units failed."""
        is_host = attempt.settings.platform == HOST
        if ended.exited is None:
            results.end()
            return
        if not ended.started:
            results.stage = START
        text = ended.exited
        if results.stage == COMPILE and is_host and attempt.job.shrink:
            text += f"\n{SHRINK_VARIABLE}=off compiles without rewriting the executable"
        results.worker_exited(text, ended.overtime or ended.exited.partition("\n")[0])


def is_shrink_on(environment: Mapping[str, str]) -> bool:
    """Return whether CPU executables are rewritten; PlanError if the variable is malformed."""
    text = environment.get(SHRINK_VARIABLE) or "on"
    if text not in ("on", "off", "1", "0"):
        msg = f"{SHRINK_VARIABLE}: expected on or off, found {text!r}"
        raise PlanError(msg)
    return text in ("on", "1")
