"""Child processes of `verify`, as their parent sees them: started, timed, and survived."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from aotbuild.spec.record import Record
from aotbuild.verify.contents import record_digest
from aotbuild.verify.outcome import Outcome, Status

CHECK = "load"
_BOOTSTRAP = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from aotbuild.verify.child import main; main()"
)
_LOG_TAIL = 600
_RESULTS_READ = 1 << 20


@dataclass(frozen=True)
class Job:
    """A record to load, and where it is: an `_aot` folder or a wheel."""

    place: str
    record: Record

    def arguments(self) -> str:
        """Return what the child is told."""
        record = self.record
        digest = record_digest(record)
        return json.dumps({"place": self.place, "function": record.function, "record": digest})

    def environment(self, outer: Mapping[str, str]) -> dict[str, str]:
        """Return the child's variables.

        What a process chooses (x64, the number of CPU devices) is set as the record needs it; what
        a machine has is not.
        """
        variables = dict(outer)
        variables["JAX_ENABLE_X64"] = "1" if self.record.requires.x64 else "0"
        variables["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
        if not self.needs_accelerator:
            variables["JAX_PLATFORMS"] = "cpu"
            count = f"--xla_force_host_platform_device_count={self.record.requires.devices}"
            variables["XLA_FLAGS"] = f"{outer.get('XLA_FLAGS', '')} {count}".strip()
        return variables

    @property
    def needs_accelerator(self) -> bool:
        """Whether its platform may be used by one process at a time only."""
        return not self.record.target.is_portable and self.record.target.platform != "cpu"


class Children:
    """Runs jobs, each in a process of its own with `timeout` seconds; several side by side."""

    def __init__(self, timeout: float, workers: int | None = None) -> None:
        self._timeout = timeout
        self._workers = workers or os.cpu_count() or 1
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._accelerator = threading.Lock()
        self._stopped = False

    def run(self, jobs: Iterable[Job], done: Callable[[Outcome], None]) -> list[Outcome]:
        """Return the outcomes in the order of the jobs; calls `done` with each as it comes."""

        def work(job: Job) -> Outcome:
            outcome = self._run(job)
            done(outcome)
            return outcome

        pool = ThreadPoolExecutor(self._workers)
        try:
            return list(pool.map(work, jobs))
        finally:
            self._stop()
            pool.shutdown(cancel_futures=True)

    def _run(self, job: Job) -> Outcome:
        guard = self._accelerator if job.needs_accelerator else contextlib.nullcontext()
        with guard, tempfile.TemporaryFile() as results, tempfile.TemporaryFile() as log:
            process = self._start(job, results, log)
            if process is None:
                return _outcome(job, Status.NOT_CHECKED, "verify was interrupted")
            try:
                code = process.wait(self._timeout)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                self._kill(process)
            return _judge(job, code, _messages(results), _tail(log), self._timeout)

    def _start(
        self, job: Job, results: IO[bytes], log: IO[bytes]
    ) -> subprocess.Popen[bytes] | None:
        # Files, not pipes: a grandchild that keeps one open must not make the parent wait.
        path = json.dumps([str(Path(entry).absolute()) for entry in sys.path if entry])
        with self._lock:
            if self._stopped:
                return None
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", _BOOTSTRAP, path, job.arguments()],
                stdin=subprocess.DEVNULL,
                stdout=results,
                stderr=log,
                env=job.environment(os.environ),
                start_new_session=True,
            )
            self._running.add(process)
        return process

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        """End a process that still runs, and all that it started."""
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        with self._lock:
            self._running.discard(process)

    def _stop(self) -> None:
        with self._lock:
            self._stopped = True
            running = list(self._running)
        for process in running:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)


def _judge(
    job: Job, code: int | None, messages: list[dict[str, Any]], log: str, timeout: float
) -> Outcome:
    """Return the outcome of a child from how it ended and what it had said until then."""
    was_loading = any(message.get("stage") == "load" for message in messages)
    last = messages[-1] if messages else {}
    if code == 0 and "status" in last:
        return Outcome(CHECK, str(job.record), Status(last["status"]), tuple(last["reasons"]))
    how, status = _death(code, timeout)
    if not was_loading:
        reason = f"the child process {how} before it loaded the executable\n{log}"
        return _outcome(job, Status.NOT_CHECKED, reason)
    return _outcome(job, status, f"the child process {how}\n{log}")


def _death(code: int | None, timeout: float) -> tuple[str, Status]:
    if code is None:
        return f"took longer than {timeout:g} s and was stopped", Status.TIMED_OUT
    if code < 0:
        return f"died of {_signal_name(-code)}", Status.CRASHED
    return f"ended with exit code {code} and no result", Status.CRASHED


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _outcome(job: Job, status: Status, reason: str) -> Outcome:
    return Outcome(CHECK, str(job.record), status, (reason.strip(),))


def _messages(file: IO[bytes]) -> list[dict[str, Any]]:
    """Return the messages of a child; what it did not write as one is left out."""
    file.seek(0)
    found = []
    for line in file.read(_RESULTS_READ).splitlines():
        with contextlib.suppress(ValueError):
            message = json.loads(line)
            if _is_message(message):
                found.append(message)
    return found


def _is_message(message: Any) -> bool:
    if not isinstance(message, dict):
        return False
    reasons = message.get("reasons", [])
    is_result = "status" not in message or message["status"] in {s.value for s in Status}
    return is_result and isinstance(reasons, list) and all(isinstance(r, str) for r in reasons)


def _tail(file: IO[bytes]) -> str:
    """Return the end of a child's log."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _LOG_TAIL))
    return file.read().decode("utf-8", "replace").strip()
