"""The parent's side of `verify`'s child processes: it starts, times and reads them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

from aotbuild.verify.jobs import (
    ChildExit,
    Job,
    batches,
    outcomes_after_exit,
    outcomes_of,
    read_messages,
    read_platforms,
)
from aotbuild.verify.outcome import GOLDEN, LOAD, Outcome, not_checked

_CHILD = "aotbuild.verify.child"
_BOOTSTRAP = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {module} import main; main()"
)
_LOG_TAIL = 600
_RESULTS_READ = 4 << 20
# Seconds between two reads of a child's messages.
_TICK = 0.05
_INTERRUPTED = "verify was interrupted"


class Child:
    """A Python process that runs `main` of a module, in a session of its own.

    Its stdin is a pipe that this process holds open; `child._end_with_parent` waits for its end.
    Results and log are files, not pipes: a grandchild that keeps a pipe open would make the parent
    wait.
    """

    def __init__(
        self,
        module: str,
        argument: Any,
        environment: Mapping[str, str],
        results: IO[bytes],
        log: IO[bytes],
    ) -> None:
        path = json.dumps([str(Path(entry).absolute()) for entry in sys.path if entry])
        code = _BOOTSTRAP.replace("{module}", module)
        reading, self._writing = os.pipe()
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", code, path, json.dumps(argument)],
                stdin=reading,
                stdout=results,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
        except OSError:
            os.close(self._writing)
            raise
        finally:
            os.close(reading)

    def wait(self, seconds: float) -> int | None:
        """Return the exit code, or None if the process runs on after so many seconds."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """Kill the process, if it still runs, and all that it started; call this once."""
        with contextlib.suppress(ProcessLookupError, PermissionError):  # nobody is left in it
            os.killpg(self.process.pid, signal.SIGKILL)
        os.close(self._writing)
        self.process.wait()


def ask(module: str, argument: Any, environment: Mapping[str, str], timeout: float) -> Any:
    """Return the JSON that a fresh process printed, which ran `main` of a module.

    A text says why there is none: the process took longer than `timeout` seconds, or it ended.
    """
    with tempfile.TemporaryFile() as results, tempfile.TemporaryFile() as log:
        child = Child(module, argument, environment, results, log)
        try:
            code = child.wait(timeout)
        finally:
            child.kill()
        if code is None:
            return f"the process took longer than {timeout:g} s"
        if code:
            return f"the process ended with {code}: {_tail(log).rpartition(chr(10))[2]}"
        try:
            return json.loads(os.pread(results.fileno(), _RESULTS_READ, 0))
        except ValueError:  # the user's code may exit, or write to every open file
            return "the process ended without an answer"


class Children:
    """Runs jobs in parallel child processes, with `timeout` seconds for each job.

    A child does jobs in turn until one fails. If its first job fails, that job has failed. A later
    job that fails is repeated in a new process, because an earlier job may be the cause.
    """

    def __init__(self, timeout: float, workers: int | None = None) -> None:
        self._timeout = timeout
        self._workers = workers or os.cpu_count() or 1
        self._running: set[Child] = set()
        self._lock = threading.Lock()
        self._accelerator = threading.Lock()
        self._stopped = False

    def run(self, jobs: Sequence[Job], done: Callable[[Outcome], None]) -> list[Outcome]:
        """Return the outcomes in the order of the jobs; calls `done` with each as it comes."""
        found: dict[int, tuple[Outcome, ...]] = {}

        def work(batch: list[int]) -> None:
            while batch:
                for outcomes in self._run([jobs[index] for index in batch]):
                    found[batch.pop(0)] = outcomes
                    for outcome in outcomes:
                        done(outcome)

        pool = ThreadPoolExecutor(self._workers)
        try:
            list(pool.map(work, batches(jobs, self._workers)))
        finally:
            self._stop()
            pool.shutdown(cancel_futures=True)
        return [outcome for index in range(len(jobs)) for outcome in found[index]]

    def platforms(self) -> tuple[str, ...] | None:
        """Return the platforms for which a child finds devices; None if it cannot tell."""
        with tempfile.TemporaryFile() as results, tempfile.TemporaryFile() as log:
            child = Child(_CHILD, None, os.environ, results, log)
            try:
                ended = child.wait(self._timeout) is not None
            finally:
                child.kill()
            found = os.pread(results.fileno(), _RESULTS_READ, 0) if ended else b""
            return read_platforms(found)

    def _run(self, jobs: Sequence[Job]) -> Iterator[tuple[Outcome, ...]]:
        """Yield the outcomes of the first jobs, at least one, from one child."""
        guard = self._accelerator if jobs[0].needs_accelerator else contextlib.nullcontext()
        with guard, tempfile.TemporaryFile() as results, tempfile.TemporaryFile() as log:
            child = self._start(jobs, results, log)
            if child is None:
                for job in jobs:
                    names = (LOAD, GOLDEN)
                    yield tuple(not_checked(n, str(job.record), _INTERRUPTED) for n in names)
                return
            try:
                yield from self._watch(child, jobs, results, log)
            finally:
                self._kill(child)

    def _watch(
        self, child: Child, jobs: Sequence[Job], results: IO[bytes], log: IO[bytes]
    ) -> Iterator[tuple[Outcome, ...]]:
        """Yield outcomes as they come, until one fails or the child ends."""
        finished, deadline = 0, time.monotonic() + self._timeout
        while True:
            code = child.wait(_TICK)
            # Not results.read: parent and child share the position, and the child writes at it.
            said = read_messages(os.pread(results.fileno(), _RESULTS_READ, 0))
            while finished < min(len(jobs), len(said)):
                outcomes = outcomes_of(jobs[finished].record, said[finished])
                if outcomes is None:
                    break
                has_failed = any(outcome.status.is_failure for outcome in outcomes)
                if finished == 0 or not has_failed:
                    yield outcomes
                if has_failed:
                    return
                finished, deadline = finished + 1, time.monotonic() + self._timeout
            if finished == len(jobs):
                return
            if code is not None or time.monotonic() > deadline:
                break
        if finished == 0:
            self._kill(child)
            exited = ChildExit(code, self._timeout, _tail(log))
            yield outcomes_after_exit(jobs[0].record, said[0] if said else [], exited)

    def _start(self, jobs: Sequence[Job], results: IO[bytes], log: IO[bytes]) -> Child | None:
        """Start a child for these jobs; None once `run` has ended."""
        with self._lock:
            if self._stopped:
                return None
            argument = [job.to_json() for job in jobs]
            child = Child(_CHILD, argument, jobs[0].environment(os.environ), results, log)
            self._running.add(child)
        return child

    def _kill(self, child: Child) -> None:
        with self._lock:
            is_mine = child in self._running
            self._running.discard(child)
        if is_mine:
            child.kill()

    def _stop(self) -> None:
        with self._lock:
            self._stopped = True
            running = list(self._running)
        for child in running:
            self._kill(child)


def _tail(file: IO[bytes]) -> str:
    """Return the end of a child's log."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _LOG_TAIL))
    return file.read().decode("utf-8", "replace").strip()
