"""A worker process as the build sees it: how it is given jobs and read, and how it exited."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from aotbuild.build.jobs import Job
from aotbuild.build.protocol import (
    Done,
    Fetched,
    Hello,
    NotAMessage,
    Ready,
    Reply,
    RunJob,
    ToWorker,
    Wanted,
    WrongVersion,
    read_reply,
    to_line,
)
from aotbuild.build.time_and_memory_limits import TIMEOUT_VARIABLE
from aotbuild.build.worker_settings import Settings
from aotbuild.format.temporary import scratch_file, temporary_folder

# For a process to say that it is a worker, before it imports jax; in seconds.
START_TIMEOUT = 120.0
# A worker's first line is short; another program may never end its own. In characters.
_FIRST_LINE = 1000
# How much of a log is shown, in bytes.
_LOG_TAIL = 4000
_NO_MEMORY = ("std::bad_alloc", "out of memory", "cannot allocate memory", "memoryerror")
_MORE_TIME = f"; {TIMEOUT_VARIABLE} sets another limit"
_LESS_MEMORY = "fewer compilers at a time leave more to each: --jobs, or AOTBUILD_JOBS"


class WorkerExited(Exception):
    """The worker process ended in the middle of a job; the text says how, with its log's end."""


class NotStarted(WorkerExited):
    """The process never was a worker, so no other process of its interpreter will be one."""


class Worker:
    """One child process. Not thread-safe: one thread at a time may use it."""

    def __init__(
        self,
        settings: Settings,
        hello: Hello,
        import_root: Path,
        start_timeout: float = START_TIMEOUT,
        fetch: Callable[[str], bool] | None = None,
        folder: Path | None = None,
    ) -> None:
        self.settings = settings
        self._starts_in = folder
        self._fetch = fetch
        self._hello = hello.model_copy(
            update={"config": settings.config, "token": os.urandom(16).hex()}
        )
        self._start_timeout = start_timeout
        self._cause: str | None = None
        self._log = scratch_file()  # closed by close()
        self._command = settings.command(import_root)
        self._interpreter = self._command[0]
        self._cleanup = ExitStack()
        self._folder: Path | None = None
        if settings.process.own_folder:
            self._folder = self._cleanup.enter_context(temporary_folder(what="worker-"))
        self._start()

    def _start(self) -> None:
        self._is_ready = False
        self._log_start = os.fstat(self._log.fileno()).st_size
        try:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._folder or self._starts_in,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                encoding="utf-8",
                errors="replace",
                env=self.settings.environment(os.environ),
                start_new_session=True,
            )
        except OSError as err:
            self._clean_up()
            msg = f"{self._interpreter} cannot be started: {err.strerror or err}"
            raise NotStarted(msg) from err
        self._watch = threading.Thread(target=self._end_what_it_started, daemon=True)
        self._watch.start()

    @property
    def is_alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    @property
    def is_new(self) -> bool:
        """Whether it has run no job, so that the next one waits for jax, too."""
        return not self._is_ready

    def run(self, job: Job, timeout: float) -> Iterator[Reply]:
        """Yield a job's messages; WorkerExited if the process ends or takes over `timeout` s."""
        if self._is_ready:
            self._log_start = os.fstat(self._log.fileno()).st_size
        else:
            self._begin()
        with self._at_most(timeout, "the compiler", _MORE_TIME):
            self._send(RunJob(job=job))
            for message in self._messages():
                if isinstance(message, Done):
                    yield message
                    return
                if isinstance(message, Wanted):
                    found = self._fetch is not None and self._fetch(message.key)
                    self._send(Fetched(found=found))
                else:
                    yield message
            raise WorkerExited(self._exit_text())

    def close(self) -> None:
        """End the process and wait for it."""
        self._end_process()
        self._clean_up()

    def _end_process(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.kill("it did not end by itself")
        self._watch.join()

    def _end_what_it_started(self) -> None:
        """Wait for the process, and end what it leaves, which may hold its pipe open."""
        # WNOWAIT: until somebody asks for its exit code, its number stays its own.
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        self._signal_group(signal.SIGKILL)

    def kill(self, cause: str) -> None:
        """End the process at once; its job raises WorkerExited with the first cause given."""
        self._cause = self._cause or cause
        self._signal_group(signal.SIGKILL)
        self._process.wait()

    def _clean_up(self) -> None:
        self._log.close()
        self._cleanup.close()

    def _begin(self) -> None:
        """Say hello, and wait until the process says that it is a worker."""
        assert self._process.stdout is not None
        with self._at_most(self._start_timeout, "its start"):
            self._send(self._hello)
            line = self._process.stdout.readline(_FIRST_LINE)
            problem = _hello_problem(line)
            if problem is not None:
                if line:
                    self.kill(problem)
                msg = f"{self._interpreter}: {self._exit_text()}"
                raise NotStarted(msg)
        self._is_ready = True

    @contextmanager
    def _at_most(self, seconds: float, what: str, remedy: str = "") -> Iterator[None]:
        """End the process if the block takes longer, so that its log shows where it hung."""
        cause = f"{what} took longer than {seconds:g} s and was stopped{remedy}"
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
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def _send(self, message: ToWorker) -> None:
        assert self._process.stdin is not None
        # Where the pipe is broken, the reading side says what happened.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(to_line(message))
            self._process.stdin.flush()

    def _messages(self) -> Iterator[Reply]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                message = read_reply(line, self._hello.token)
            except (NotAMessage, WrongVersion) as err:
                self.kill(f"the compiler process said what is no message: {err}")
                return
            yield message

    def _exit_text(self) -> str:
        """Return how the process ended, with the end of its log."""
        code, log = self._process.wait(), self._log_tail()
        self._watch.join()
        cause = self._cause or describe_exit(code, log)
        return f"{cause}\nthe end of its log:\n{log or '(empty)'}"

    def _log_tail(self) -> str:
        """Return the end of what was logged since the job began."""
        end = os.fstat(self._log.fileno()).st_size
        start = max(self._log_start, end - _LOG_TAIL)
        # Not seek and read: processes that still run write at the same position.
        tail = os.pread(self._log.fileno(), end - start, start)
        return tail.decode("utf-8", "replace").strip()


def describe_exit(code: int, log: str) -> str:
    """Return how a process ended by itself, from its exit code and its log."""
    if -code == signal.SIGKILL:
        return (
            "the compiler process was killed (SIGKILL), probably by the system for want of memory; "
            f"{_LESS_MEMORY}"
        )
    if code >= 0:
        words = f"the compiler process ended with exit code {code}"
    else:
        words = f"the compiler process died of {_signal_name(-code)}"
    if any(sign in log.lower() for sign in _NO_MEMORY):
        return f"{words}: it ran out of memory; {_LESS_MEMORY}"
    return words


def _hello_problem(line: str) -> str | None:
    """Return why the first line of a process is not that of a worker; None if it is."""
    try:
        if isinstance(read_reply(line), Ready):
            return None
    except WrongVersion as err:
        return f"it speaks {err}: aotbuild changed during the build, so build again"
    except NotAMessage:
        pass
    return f"it is no worker of aotbuild: it said {line[:200]!r}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
