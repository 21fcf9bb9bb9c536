"""Jobs that submitit hands to a cluster's queue, as an executor of `concurrent.futures`.

A busy queue fails now and then, and so does a shared folder. Both are tried again for a while.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from aotbuild.build.executors.machines import Unusable, WorkerLost

_LOG = logging.getLogger("aotbuild")
# In seconds: between two looks for results, and between two questions to the queue.
_LOOK, _ASK = 0.5, 20.0
# A result may show up on this machine so long after its job has left the queue, in seconds.
_LATE = 60.0
# What fails is tried again after so many seconds, and given up after so many.
_PAUSE, _PATIENCE = 5.0, 120.0
# Reasons to wait that need no word to the user.
_ORDINARY = frozenset({"", "None", "Priority", "Resources", "JobArrayTaskLimit", "BeginTime"})


class Passing(Exception):
    """A command of the queue failed, and may work when it is tried again; the text says how."""


@dataclass(frozen=True)
class Listed:
    """A job as the queue lists it: its state, whether that is final, and why it waits."""

    state: str
    ended: bool = False
    reason: str = ""


class Queue(Protocol):
    """The commands of a cluster. They raise `Passing` where trying again may help."""

    @property
    def most(self) -> int:
        """How many calls may be submitted at a time."""

    def submit(self, calls: list[tuple[Any, ...]]) -> list[Any]:
        """Submit calls of functions, and return submitit's jobs of them."""

    def listed(self, jobs: Iterable[Any]) -> Mapping[str, Listed]:
        """Return what the queue knows of jobs, by their ids."""

    def cancel(self, jobs: Iterable[Any]) -> None:
        """End jobs."""


@dataclass(eq=False)
class _Job:
    """A call, the future of its result, and the job of submitit once it is submitted."""

    call: tuple[Any, ...]
    future: Future[Any]
    job: Any = None
    missing_since: float | None = None
    state: str = ""


class _Retries:
    """When something that failed is tried again. The first failure is a warning."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._since: float | None = None
        self._again = 0.0

    @property
    def is_due(self) -> bool:
        """Whether it may be tried now."""
        return time.monotonic() >= self._again

    def failed(self, error: Exception) -> None:
        """Note a failure; Unusable if it has failed for too long."""
        now = time.monotonic()
        if self._since is None:
            self._since = now
            _LOG.warning("%s failed, and is tried again for %g s: %s", self._what, _PATIENCE, error)
        elif now - self._since > _PATIENCE:
            msg = f"{self._what} has failed for {_PATIENCE:g} s: {error}"
            raise Unusable(msg) from error
        self._again = now + _PAUSE

    def worked(self) -> None:
        """Note that it works."""
        self._since = None


class SubmittedJobs(Executor):
    """An executor whose calls are jobs of a queue.

    A future raises WorkerLost for a job that left no result, and Unusable where the queue fails.
    """

    def __init__(self, queue: Queue, late: float = _LATE) -> None:
        self._queue, self._late = queue, late
        self._new: list[_Job] = []
        self._running: list[_Job] = []
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._asked = time.monotonic()
        self._submitting = _Retries("submitting jobs")
        self._asking = _Retries("asking for the state of jobs")
        self._reading = _Retries("reading results")
        self._said: set[str] = set()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Have a call submitted, together with those that come at the same time."""
        job = _Job((fn, args, kwargs), Future())
        with self._lock:
            self._new.append(job)
        return job.future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Cancel what has not ended."""
        self._ended.set()
        self._thread.join()
        if self._running:
            self._queue.cancel(job.job for job in self._running)
        for job in [*self._running, *self._new]:
            job.future.cancel()

    def _serve(self) -> None:
        while not self._ended.wait(_LOOK):
            try:
                self._send()
                self._look()
            except Exception as err:  # noqa: BLE001 (whatever a command of the cluster does)
                text = str(err) if isinstance(err, Unusable) else f"{type(err).__name__}: {err}"
                with self._lock:
                    jobs = [*self._running, *self._new]
                for job in jobs:
                    _set(job.future, Unusable(text))
                return  # the build ends; `shutdown` cancels what runs

    def _send(self) -> None:
        """Submit what is new, as many at a time as the queue takes."""
        while self._submitting.is_due:
            with self._lock:
                new = [job for job in self._new if not job.future.cancelled()]
                self._new = new
            if not new:
                return
            try:
                jobs = new[: self._queue.most]
                submitted = self._queue.submit([job.call for job in jobs])
            except Passing as err:
                self._submitting.failed(err)
                return
            self._submitting.worked()
            for job, found in zip(jobs, submitted, strict=True):
                job.job, job.call = found, ()
            with self._lock:
                self._new = [job for job in self._new if job.job is None]
            self._running += jobs

    def _look(self) -> None:
        canceled = [job for job in self._running if job.future.cancelled()]
        if canceled:
            self._queue.cancel(job.job for job in canceled)
        self._running = [job for job in self._running if job not in canceled]
        self._take_results()
        is_time = time.monotonic() - self._asked > min(_ASK, self._late)
        if self._running and is_time and self._asking.is_due:
            try:
                listed = self._queue.listed(job.job for job in self._running)
            except Passing as err:
                self._asking.failed(err)
                return
            self._asking.worked()
            self._asked = time.monotonic()
            for job in self._running:
                self._note(job, listed.get(job.job.job_id))
            self._running = [job for job in self._running if not job.future.done()]

    def _take_results(self) -> None:
        if not self._reading.is_due:
            return
        left = []
        for job in self._running:
            try:
                if not _has_result(job):
                    left.append(job)
            except (OSError, EOFError) as err:
                self._reading.failed(err)
                return  # those that have a result are left out next time
        if self._running:
            self._reading.worked()
        self._running = left

    def _note(self, job: _Job, listed: Listed | None) -> None:
        """Take what the queue says of a job; one that has left it for long is lost."""
        now = time.monotonic()
        if listed is not None:
            job.state = listed.state
        if listed is not None and not listed.ended:
            job.missing_since = None
            if listed.reason not in _ORDINARY | self._said and listed.state == "PENDING":
                self._said.add(listed.reason)
                _LOG.warning("job %s waits in the queue: %s", job.job.job_id, listed.reason)
        elif job.missing_since is None:
            job.missing_since = now
        elif now - job.missing_since > self._late:
            _set(job.future, WorkerLost(_lost_text(job)))


def _has_result(job: _Job) -> bool:
    """Give a job's future its result, if there is one."""
    if job.future.done():
        return True
    # Listing a folder makes NFS look again.
    os.listdir(job.job.paths.folder)  # noqa: PTH208
    if not job.job.paths.result_pickle.exists():
        return False
    try:
        result = job.job.result()
    except (OSError, EOFError):  # of the folder: what a call raises comes as submitit's error
        raise
    except Exception as err:  # noqa: BLE001 (whatever the call raised)
        _set(job.future, _reached_limit(job.job, err) or err)
    else:
        if job.future.set_running_or_notify_cancel():
            job.future.set_result(result)
    # A whole build in files would stay there until its end.
    with suppress(OSError):
        job.job.paths.result_pickle.unlink(missing_ok=True)
    return True


def _set(future: Future[Any], error: Exception) -> None:
    with suppress(InvalidStateError):  # it was canceled, or has a result
        future.set_exception(error)


def _reached_limit(job: Any, error: Exception) -> TimeoutError | None:
    """Return a clear error for what submitit makes of the signal before a time limit."""
    if "Job not requeued because: timed-out" not in str(error):
        return None
    return TimeoutError(f"job {job.job_id} reached its time limit; ask for more minutes: time=")


def _lost_text(job: _Job) -> str:
    try:
        lines = (job.job.stderr() or job.job.stdout() or "").strip().splitlines()
    except OSError:
        lines = []
    log = "".join(f"\n  {line}" for line in lines[-20:])
    state = f" ({job.state})" if job.state else ""
    left = f"job {job.job.job_id} left the queue without a result{state}"
    return f"{left}; its log ends:{log}" if log else left
