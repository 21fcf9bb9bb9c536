"""A worker process as its parent sees it: started, given jobs, read, and how it ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from aotbuild.build.jobs import Job
from aotbuild.build.settings import Settings, WorkerInit
from aotbuild.toolchains.environment import Toolchain

_NO_MEMORY = ("std::bad_alloc", "out of memory", "Cannot allocate memory", "MemoryError")
_LESS_MEMORY = "fewer compilers at a time leave more to each: --jobs, or AOTBUILD_JOBS"


def ending_of(code: int, log: str) -> str:
    """Return how a process ended that nobody here ended, from its exit code and its log."""
    if code >= 0:
        words = f"the compiler process ended with exit code {code}"
    elif -code == signal.SIGKILL:
        return (
            "the compiler process was killed (SIGKILL), probably by the system for want of memory; "
            f"{_LESS_MEMORY}"
        )
    else:
        words = f"the compiler process died of {_signal_name(-code)}"
    if any(sign.lower() in log.lower() for sign in _NO_MEMORY):
        return f"{words}: it ran out of memory; {_LESS_MEMORY}"
    return words


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


_PACKAGE = Path(__file__).resolve().parent.parent
_LOG_TAIL = 4000
# For one job, in seconds.
DEFAULT_TIMEOUT = 3600.0
# For a process to say that it is there, before it imports anything large; in seconds.
START_TIMEOUT = 120.0
# The first line of a worker is short; what is no worker may never end its line.
_FIRST_LINE = 1000


class WorkerDied(Exception):
    """The worker process ended in the middle of a job; the text says how, with its log's end."""


class NotStarted(WorkerDied):
    """No worker came of the process: whatever else is given to its interpreter, it will not run."""


class Worker:
    """One child process. Not thread-safe: whoever holds it uses it alone."""

    def __init__(
        self,
        settings: Settings,
        init: WorkerInit,
        import_root: Path,
        start_timeout: float = START_TIMEOUT,
    ) -> None:
        self.settings = settings
        self._init, self._start_timeout = replace(init, config=settings.config), start_timeout
        self._is_ready = False
        self._cause: str | None = None
        self._log_start = 0
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        command = worker_command(settings.toolchain, import_root)
        self._interpreter = command[0]
        self._folder = _own_folder() if settings.has_own_folder else None
        try:
            self._process = subprocess.Popen(
                command,
                cwd=self._folder.name if self._folder else None,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                encoding="utf-8",
                errors="replace",
                env=worker_environment(settings),
                start_new_session=True,
            )
        except OSError as err:
            self._clean_up()
            msg = f"{self._interpreter} cannot be started: {err.strerror or err}"
            raise NotStarted(msg) from err

    @property
    def is_alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def run(self, job: Job, timeout: float) -> Iterator[dict[str, Any]]:
        """Yield the messages of a job; WorkerDied if the process ends or takes over `timeout` s."""
        if self._is_ready:
            self._log_start = os.fstat(self._log.fileno()).st_size
        else:
            self._begin()
        with self._at_most(timeout, "the compiler"):
            self._send({"job": job.to_json()})
            for message in self._messages():
                if "done" in message:
                    return
                yield message
            raise WorkerDied(self._obituary())

    def close(self) -> None:
        """End the process and wait for it."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.kill("it did not end by itself")
        self._clean_up()

    def kill(self, cause: str) -> None:
        """End the process at once, whatever it is doing; its job raises WorkerDied with the cause.

        Of several causes the first is told.
        """
        self._cause = self._cause or cause
        self._signal_group(signal.SIGKILL)
        self._process.wait()

    def _clean_up(self) -> None:
        self._log.close()
        if self._folder is not None:
            self._folder.cleanup()

    def _begin(self) -> None:
        """Tell the process what holds for its life, and wait until it is a worker."""
        assert self._process.stdout is not None
        with self._at_most(self._start_timeout, "its start"):
            self._send(self._init.to_json())
            line = self._process.stdout.readline(_FIRST_LINE)
            if _message(line) != {"ready": True}:
                if line:
                    self.kill(f"it is no worker of aotbuild: it said {line[:200]!r}")
                msg = f"{self._interpreter}: {self._obituary()}"
                raise NotStarted(msg)
        self._is_ready = True

    @contextmanager
    def _at_most(self, seconds: float, what: str) -> Iterator[None]:
        """End the process if the block takes longer, so that its log tells where it hung."""
        cause = f"{what} took longer than {seconds:g} s and was stopped"
        timer = threading.Timer(seconds, self._time_out, [cause])
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _time_out(self, cause: str) -> None:
        self._cause = self._cause or cause
        # faulthandler prints the stack.
        self._signal_group(signal.SIGABRT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=2)
        self.kill(cause)

    def _signal_group(self, number: signal.Signals) -> None:
        """Send a signal to the process and to all that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            # The reading side says what happened.
            return

    def _messages(self) -> Iterator[dict[str, Any]]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message = _message(line)
            if message is None:
                self.kill(f"the compiler process said what is no message: {line[:200]!r}")
                return
            yield message

    def _obituary(self) -> str:
        """Return how the process ended, with the end of its log."""
        code, log = self._process.wait(), self._log_tail()
        self._signal_group(signal.SIGKILL)  # what it had started
        return f"{self._cause or ending_of(code, log)}\nthe end of its log:\n{log or '(empty)'}"

    def _log_tail(self) -> str:
        """Return the end of what was logged since the job began."""
        end = os.fstat(self._log.fileno()).st_size
        start = max(self._log_start, end - _LOG_TAIL)
        # Not seek and read: what still runs of it writes at the same position.
        tail = os.pread(self._log.fileno(), end - start, start)
        return tail.decode("utf-8", "replace").strip()


def _own_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="aotbuild-worker-", ignore_cleanup_errors=True)


def _message(line: str) -> dict[str, Any] | None:
    """Return a line as a message, or None if it is none."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def worker_command(toolchain: Toolchain, import_root: Path) -> list[str]:
    """Return the command of a worker that imports the project's sources from `import_root`.

    The running interpreter imports what its parent does; another one what its environment has.
    """
    path = [str(import_root)]
    if toolchain.interpreter is None:
        path += [str(Path(entry).absolute()) for entry in sys.path if entry]
    given = {"aotbuild": str(_PACKAGE), "path": path, "whole": toolchain.interpreter is None}
    interpreter = str(toolchain.interpreter or sys.executable)
    # -P: nothing is imported from the script's own folder.
    return [interpreter, "-P", str(_PACKAGE / "worker" / "start.py"), json.dumps(given)]


def worker_environment(settings: Settings) -> dict[str, str]:
    """Return the variables of a worker; those that move this Python's imports stay with it."""
    environment = settings.environment(dict(os.environ))
    if settings.toolchain.interpreter is not None:
        for name in ("PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV"):
            environment.pop(name, None)
    return environment
