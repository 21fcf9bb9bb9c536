"""A worker as its parent sees it: start it, give it a job, read its messages, survive its death."""

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
from dataclasses import replace
from pathlib import Path
from typing import Any

from aotbuild.build.jobs import Job
from aotbuild.build.worker_init import Settings, WorkerInit

_BOOTSTRAP = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from aotbuild.build.worker.main import main; main()"
)
_LOG_TAIL = 4000
# For one job, in seconds.
DEFAULT_TIMEOUT = 3600.0


class WorkerDied(Exception):
    """The worker process ended in the middle of a job; the text says how, with its log's end."""


class Worker:
    """One child process. Not thread-safe: whoever holds it uses it alone."""

    def __init__(self, settings: Settings, init: WorkerInit, path: list[str]) -> None:
        self.settings = settings
        self._timed_out = False
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        interpreter = str(settings.toolchain.interpreter or sys.executable)
        self._process = subprocess.Popen(
            [interpreter, "-P", "-c", _BOOTSTRAP, json.dumps(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            encoding="utf-8",
            env=settings.environment(dict(os.environ)),
            start_new_session=True,
        )
        self._send(replace(init, config=settings.config).to_json())

    def run(self, job: Job, timeout: float) -> Iterator[dict[str, Any]]:
        """Yield the messages of a job; WorkerDied if the process ends or takes over `timeout` s."""
        timer = threading.Timer(timeout, self._time_out)
        timer.start()
        try:
            self._send({"job": job.to_json()})
            for message in self._messages():
                if "done" in message:
                    return
                if "ready" not in message:
                    yield message
            raise WorkerDied(self._obituary(timeout))
        finally:
            timer.cancel()

    def close(self) -> None:
        """End the process and wait for it."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.kill()
        self._log.close()

    def kill(self) -> None:
        """End the process at once, whatever it is doing; its job raises WorkerDied."""
        self._signal_group(signal.SIGKILL)
        self._process.wait()

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
            yield json.loads(line)

    def _time_out(self) -> None:
        """End the process so that its log tells where it hung: faulthandler prints the stack."""
        self._timed_out = True
        self._signal_group(signal.SIGABRT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=2)
        self.kill()

    def _obituary(self, timeout: float) -> str:
        code = self._process.wait()
        if self._timed_out:
            cause = f"the compiler took longer than {timeout:.0f} s and was stopped"
        elif code < 0:
            cause = f"the compiler process died of {signal.Signals(-code).name}"
        else:
            cause = f"the compiler process ended with exit code {code}"
        return f"{cause}\nthe end of its log:\n{self._log_tail()}"

    def _log_tail(self) -> str:
        self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, self._log.tell() - _LOG_TAIL))
        return self._log.read().decode("utf-8", "replace").strip() or "(empty)"


def import_path(import_root: Path) -> list[str]:
    """Return the `sys.path` of workers: the project's sources, then what the parent has."""
    return [str(import_root), *(str(Path(entry).absolute()) for entry in sys.path if entry)]
