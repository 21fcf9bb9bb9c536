"""One attempt at a job: a worker process is given it, and either finishes it or exits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass

from aotbuild.build.jobs import Job, Settings
from aotbuild.build.pool import WorkerPool
from aotbuild.build.protocol import Reply, Started
from aotbuild.build.worker_process import NotStarted, Worker, WorkerExited

# Gets the messages of an attempt.
Tell = Callable[[Reply], None]


@dataclass(frozen=True)
class Request:
    """A job, and the settings of the worker that it needs.

    The job may take `timeout` seconds. Where its `golden` is `auto`, calling the function may take
    `golden_timeout` of them.
    """

    settings: Settings
    job: Job
    timeout: float
    golden_timeout: float


@dataclass(frozen=True)
class Exited:
    """How a worker exited in the middle of a job, with the end of its log.

    `started` says that the process was a worker at all, `crashed` is that of `WorkerExited`.
    """

    text: str
    crashed: bool = False
    started: bool = True

    @property
    def reason(self) -> str:
        """What happened, without the log."""
        return self.text.partition("\n")[0]


@dataclass(frozen=True)
class Outcome:
    """How an attempt ended: by itself, or because its worker exited.

    `overtime` says that the worker was killed because calling the function took too long.
    `golden_seconds` is how long that took.
    """

    exited: Exited | None = None
    overtime: str | None = None
    golden_seconds: float = 0.0


def run_attempt(pool: WorkerPool, request: Request, tell: Tell) -> Outcome:
    """Give a job to a worker of a pool; `tell` gets the job's messages as they come.

    CancelledError if the pool was stopped.
    """
    try:
        worker = pool.take(request.settings)
    except NotStarted as err:
        return Outcome(Exited(str(err), started=False))
    limit = _Limit(worker, request.golden_timeout)
    try:
        _talk(worker, limit, request, tell)
    except WorkerExited as err:
        pool.discard(worker, err)
        if pool.stopped:
            raise CancelledError from err
        exited = Exited(str(err), err.crashed, not isinstance(err, NotStarted))
        return Outcome(exited, limit.reason, limit.seconds)
    (pool.discard if limit.reason else pool.give_back)(worker)
    return Outcome(None, limit.reason, limit.seconds)


def _talk(worker: Worker, limit: _Limit, request: Request, tell: Tell) -> None:
    """Run a job, and limit how long its function is called."""
    if worker.is_new:
        tell(Started(doing=f"starting jax {worker.settings.toolchain.jax}"))
    try:
        for message in worker.run(request.job, request.timeout):
            match message:
                case Started(stage="golden") if request.job.golden == "auto":
                    limit.start()
                case Started(stage="shrink"):
                    limit.restart()
            tell(message)
    finally:
        limit.stop()


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
