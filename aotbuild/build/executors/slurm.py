"""`slurm://?partition=NAME&time=MINUTES`: jobs of a Slurm cluster, submitted by submitit.

Each attempt is a Slurm job; those that wait at the same time become one array. A folder that all
nodes see carries them there and back.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from aotbuild.build.executors.bundle import Bundle, remove_old
from aotbuild.build.executors.machines import Machines, Unusable, WorkerLost
from aotbuild.errors import PlanError
from aotbuild.toolchains.uv import cache_folder

# Minutes that a job may take, unless the URL says `time`.
_TIME = "60"
# In seconds: between two looks for results, and between two questions to the queue.
_LOOK, _ASK = 0.5, 20.0
# A result may show up on this machine so long after its job has left the queue, in seconds.
_LATE = 60.0


@dataclass(eq=False)
class _Job:
    """A call, the future of its result, and the job of submitit once it is submitted."""

    call: tuple[Any, ...]
    future: Future[Any]
    job: Any = None
    missing_since: float | None = None


class SubmittedJobs(Executor):
    """An executor of `concurrent.futures` over one of submitit.

    `alive` returns the ids of those jobs that wait or run, `cancel` ends jobs. A future raises
    WorkerLost for a job that left no result.
    """

    def __init__(
        self,
        submitting: Any,
        alive: Callable[[Iterable[Any]], set[str]],
        cancel: Callable[[Iterable[Any]], None],
        late: float = _LATE,
    ) -> None:
        self._submitting, self._alive, self._cancel, self._late = submitting, alive, cancel, late
        self._new: list[_Job] = []
        self._running: list[_Job] = []
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._asked = time.monotonic()
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
        # Within a batch that was not submitted, a job has no id yet.
        left = [job for job in self._running if getattr(job.job, "job_id", None)]
        if left:
            self._cancel(job.job for job in left)
        for job in [*self._running, *self._new]:
            job.future.cancel()

    def _serve(self) -> None:
        while not self._ended.wait(_LOOK):
            with self._lock:
                new, self._new = self._new, []
            try:
                self._send([job for job in new if not job.future.cancelled()])
                self._look()
            except Exception as err:  # noqa: BLE001 (whatever a command of the cluster does)
                for job in self._running:
                    _set(job.future, Unusable(f"{type(err).__name__}: {err}"))
                return  # the build ends; `shutdown` cancels what runs

    def _send(self, jobs: list[_Job]) -> None:
        self._running += jobs
        if len(jobs) > 1:
            with self._submitting.batch():
                self._hand_over(jobs)
        else:
            self._hand_over(jobs)

    def _hand_over(self, jobs: list[_Job]) -> None:
        for job in jobs:
            function, args, kwargs = job.call
            job.job = self._submitting.submit(function, *args, **kwargs)
            job.call = ()

    def _look(self) -> None:
        canceled = [job for job in self._running if job.future.cancelled()]
        if canceled:
            self._cancel(job.job for job in canceled)
        left = [job for job in self._running if job not in canceled and not _has_result(job)]
        if left and time.monotonic() - self._asked > min(_ASK, self._late):
            self._asked = time.monotonic()
            left = self._without_lost(left)
        self._running = left

    def _without_lost(self, jobs: list[_Job]) -> list[_Job]:
        """Return those jobs that may still have a result."""
        alive, now = self._alive(job.job for job in jobs), time.monotonic()
        for job in jobs:
            if job.job.job_id in alive:
                job.missing_since = None
            elif job.missing_since is None:
                job.missing_since = now
            elif now - job.missing_since > self._late:
                _set(job.future, WorkerLost(_lost_text(job.job)))
        return [job for job in jobs if not job.future.done()]


def _has_result(job: _Job) -> bool:
    """Give a job's future its result, if there is one."""
    # Listing a folder makes NFS look again.
    os.listdir(job.job.paths.folder)  # noqa: PTH208
    if not job.job.paths.result_pickle.exists():
        return False
    try:
        result = job.job.result()
    except Exception as err:  # noqa: BLE001 (whatever the call raised)
        _set(job.future, err)
    else:
        if job.future.set_running_or_notify_cancel():
            job.future.set_result(result)
    # A whole build in files would stay there until its end.
    job.job.paths.result_pickle.unlink(missing_ok=True)
    return True


def _set(future: Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


def _lost_text(job: Any) -> str:
    lines = (job.stderr() or job.stdout() or "").strip().splitlines()
    log = "".join(f"\n  {line}" for line in lines[-20:])
    return f"job {job.job_id} left the queue without a result{log and f'; its log ends:{log}'}"


class SlurmMachines(Machines):
    """Jobs of a Slurm cluster, and the folder that all of its nodes see."""

    def __init__(self, executor: SubmittedJobs, folder: Path, name: str) -> None:
        super().__init__(executor, name)
        self._folder = folder

    def give(self, bundle: Bundle) -> bytes | str | None:
        """Put the bundle into the folder once; all jobs read it there."""
        path = self._folder / f"{bundle.digest}.zip"
        path.write_bytes(bundle.data)
        return str(path)

    def close(self) -> None:
        """Cancel what has not ended, and remove the folder."""
        self.executor.shutdown()
        shutil.rmtree(self._folder, ignore_errors=True)


def submitting(text: str) -> SlurmMachines:
    """Return the machines of the cluster that this machine submits to; PlanError if it cannot."""
    try:
        import submitit
    except ImportError as err:
        msg = f"{text}: {err}; install aotbuild[slurm]"
        raise PlanError(msg) from err
    parts = urlsplit(text)
    options = {"time": _TIME, **dict(parse_qsl(parts.query))}
    if parts.netloc or parts.path or not options["time"].isdecimal():
        msg = f"executor: expected slurm://?partition=NAME&time=MINUTES, found {text!r}"
        raise PlanError(msg)
    place = _place(options.pop("folder", ""))
    place.mkdir(parents=True, exist_ok=True)
    remove_old(place)  # what killed builds left
    folder = Path(tempfile.mkdtemp(prefix="build-", dir=place))
    try:
        executor = submitit.SlurmExecutor(folder)
        executor.update_parameters(**_parameters(options, executor))
    except Exception as err:
        shutil.rmtree(folder, ignore_errors=True)
        msg = f"{text}: {err}"
        raise PlanError(msg) from err
    return SlurmMachines(SubmittedJobs(executor, _in_queue, _scancel), folder, "slurm")


def _place(given: str) -> Path:
    """Return a folder with nothing but builds, as old ones are removed: never the given one."""
    return Path(given).absolute() / "aotbuild-slurm" if given else cache_folder() / "slurm"


def _parameters(options: dict[str, str], executor: Any) -> dict[str, Any]:
    """Return submitit's parameters; what it does not know goes to sbatch as it is."""
    known = executor._valid_parameters()
    values = {k: int(v) if v.isdecimal() else v for k, v in options.items()}
    own = {name: value for name, value in values.items() if name in known}
    others = {name: value for name, value in values.items() if name not in known}
    return {"job_name": "aotbuild", **own, "additional_parameters": others}


def _in_queue(_: Iterable[Any]) -> set[str]:
    # Not sacct, which a cluster without an accounting database lacks. -r: a line for each job of an
    # array.
    command = ["squeue", "--noheader", "--array", "--me", "--format=%i"]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def _scancel(jobs: Iterable[Any]) -> None:
    command = ["scancel", *(job.job_id for job in jobs)]
    subprocess.run(command, capture_output=True, check=False)
