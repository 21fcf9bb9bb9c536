"""Attempts at jobs by a pool of worker processes, which are kept for the next job."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import CancelledError, Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aotbuild.build.jobs import Job
from aotbuild.build.protocol import Hello, Reply, Started
from aotbuild.build.time_and_memory_limits import (
    GOLDEN_SECONDS,
    GoldenLimit,
    available_memory,
    most_jobs,
)
from aotbuild.build.worker_process import NotStarted, Worker, WorkerExited
from aotbuild.build.worker_settings import Settings

# Gets the messages of an attempt.
Tell = Callable[[Reply], None]


@dataclass(frozen=True)
class Attempt:
    """A job to be given to a worker with these settings, which either finishes it or exits.

    The job may take `timeout` seconds. Where its `golden` is `auto`, calling the function may take
    GOLDEN_SECONDS of them.
    """

    settings: Settings
    job: Job
    timeout: float


@dataclass(frozen=True)
class Ended:
    """How an attempt ended: by itself, or because its worker exited.

    `exited` then says how, with the end of the worker's log; `started` that the process was a
    worker at all. `overtime` says that the worker was killed because calling the function took too
    long.
    """

    exited: str | None = None
    started: bool = True
    overtime: str | None = None


@dataclass
class WorkerPool:
    """Workers by their settings, at most `limit` of them. Safe to use from several threads.

    `fetch` gets entries of the store that a worker wants. Workers start in `folder`, by default in
    that of this process.
    """

    hello: Hello
    import_root: Path
    limit: int
    fetch: Callable[[str], bool] | None = None
    folder: Path | None = None
    stopped: bool = False
    _idle: list[Worker] = field(default_factory=list)
    _busy: list[Worker] = field(default_factory=list)
    _broken: dict[Path | None, str] = field(default_factory=dict)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def run(self, attempt: Attempt, tell: Tell) -> Ended:
        """Give a job to a worker; `tell` gets the job's messages as they come.

        CancelledError if the pool was stopped.
        """
        try:
            worker = self.take(attempt.settings)
        except NotStarted as err:
            return Ended(str(err), started=False)
        limit = GoldenLimit(worker.kill, GOLDEN_SECONDS)
        try:
            _talk(worker, limit, attempt, tell)
        except WorkerExited as err:
            self.discard(worker, err)
            if self.stopped:
                raise CancelledError from err
            return Ended(str(err), not isinstance(err, NotStarted), limit.reason)
        (self.discard if limit.reason else self.give_back)(worker)
        return Ended(overtime=limit.reason)

    def take(self, settings: Settings) -> Worker:
        """Return an idle worker with these settings, or a new one as soon as there is room for it.

        NotStarted if its interpreter cannot be run, or if an earlier process of it was no worker.
        """
        with self._changed:
            while True:
                if self.stopped:
                    raise CancelledError
                self._drop_exited()
                fitting = [w for w in self._idle if w.settings == settings]
                if fitting:
                    worker = fitting[0]
                    self._idle.remove(worker)
                    break
                if len(self._idle) + len(self._busy) < self.limit:
                    worker = self._start(settings)
                    break
                self._make_room()
            self._busy.append(worker)
        return worker

    def give_back(self, worker: Worker) -> None:
        """Keep a worker for the next job, if it may run one."""
        if worker.settings.process.one_job:
            self.discard(worker)
            return
        with self._changed:
            self._busy.remove(worker)
            self._idle.append(worker)
            self._changed.notify_all()

    def discard(self, worker: Worker, exited: WorkerExited | None = None) -> None:
        """End a worker that cannot be used again; `exited` is how it ended, if it did by itself."""
        worker.close()
        with self._changed:
            self._busy.remove(worker)
            if isinstance(exited, NotStarted):
                self._broken[worker.settings.toolchain.interpreter] = str(exited)
            self._changed.notify_all()

    def stop(self) -> None:
        """Start no more workers, and kill those at work."""
        with self._changed:
            self.stopped = True
            for worker in self._busy:
                worker.kill("the build was stopped")
            self._changed.notify_all()

    def close(self) -> None:
        """End all idle workers."""
        with self._changed:
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.close()

    def _start(self, settings: Settings) -> Worker:
        interpreter = settings.toolchain.interpreter
        if interpreter in self._broken:
            raise NotStarted(self._broken[interpreter])
        return Worker(settings, self.hello, self.import_root, fetch=self.fetch, folder=self.folder)

    def _drop_exited(self) -> None:
        """Forget idle workers that exited: the system kills large processes, at work or not."""
        for worker in [worker for worker in self._idle if not worker.is_alive]:
            self._idle.remove(worker)
            worker.close()

    def _make_room(self) -> None:
        """End an idle worker, or wait until another thread gives one back."""
        if not self._idle:
            self._changed.wait()
            return
        surplus = self._idle.pop(0)
        self._changed.release()
        try:
            surplus.close()
        finally:
            self._changed.acquire()


def _talk(worker: Worker, limit: GoldenLimit, attempt: Attempt, tell: Tell) -> None:
    """Run a job, and limit how long its function is called."""
    if worker.is_new:
        tell(Started(doing=f"starting jax {worker.settings.toolchain.jax}"))
    try:
        for message in worker.run(attempt.job, attempt.timeout):
            if attempt.job.golden == "auto" and message == Started(stage="golden"):
                limit.start()
            tell(message)
    finally:
        limit.stop()


@contextmanager
def open_pool(
    hello: Hello,
    import_root: Path,
    settings: Collection[Settings],
    jobs: int | None = None,
    fetch: Callable[[str], bool] | None = None,
) -> Iterator[tuple[Callable[[Attempt, Tell], Ended], Executor]]:
    """Yield what runs an attempt at one of the jobs, and the executor whose threads wait for it.

    `settings` are those of each job. There are no more workers than `jobs`, by default `most_jobs`,
    and no more than the memory that is free now has room for. Leaving the block ends all of them;
    an exception kills them. `fetch` is the pool's.
    """
    limit = min(jobs or most_jobs(os.environ), len(settings))
    if memory := available_memory():
        limit = min(limit, memory // max(each.process.memory for each in settings))
    pool = WorkerPool(hello, import_root, max(1, limit), fetch)
    threads = ThreadPoolExecutor(pool.limit)
    try:
        yield pool.run, threads
    except BaseException:  # Ctrl-C too: do not wait for compilers whose result nobody wants
        pool.stop()
        raise
    finally:
        # A worker dies with the thread that started it, and then has no time to end what the user's
        # code left running.
        pool.close()
        threads.shutdown(cancel_futures=True)
        pool.close()
