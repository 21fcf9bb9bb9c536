"""The parent's side of `verify`'s child processes: it starts, times and reads them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

from aotbuild.format.temporary import scratch_file
from aotbuild.verify.jobs import (
    ChildExit,
    Job,
    batches,
    outcomes_after_exit,
    outcomes_of,
    read_messages,
)
from aotbuild.verify.outcome import GOLDEN, LOAD, Outcome, not_checked

_BOOTSTRAP = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from aotbuild.verify.child import main; main()"
)
_LOG_TAIL = 600
_RESULTS_READ = 4 << 20
# Seconds between two reads of a child's messages.
_TICK = 0.05
_INTERRUPTED = "verify was interrupted"


class Children:
    """Runs jobs in parallel child processes, with `timeout` seconds for each job.

    A child does jobs in turn until one fails. If its first job fails, that job has failed. A later
    job that fails is repeated in a new process, because an earlier job may be the cause.

    Each child is a session of its own, so that it is killed with all that it started. Its stdin is
    a pipe that this process holds open; `child._end_with_parent` waits for its end. Results and log
    are files, not pipes: a grandchild that keeps a pipe open would make the parent wait.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._workers = os.cpu_count() or 1
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._accelerator = threading.Lock()
        self._stopped = False

    def run(self, jobs: Sequence[Job]) -> list[Outcome]:
        """Return the outcomes in the order of the jobs."""
        found: dict[int, tuple[Outcome, ...]] = {}

        def work(batch: list[int]) -> None:
            while batch:
                for outcomes in self._run([jobs[index] for index in batch]):
                    found[batch.pop(0)] = outcomes

        pool = ThreadPoolExecutor(self._workers)
        try:
            list(pool.map(work, batches(jobs, self._workers)))
        finally:
            self._stop()
            pool.shutdown(cancel_futures=True)
        return [outcome for index in range(len(jobs)) for outcome in found[index]]

    def _run(self, jobs: Sequence[Job]) -> Iterator[tuple[Outcome, ...]]:
        """Yield the outcomes of the first jobs, at least one, from one child."""
        guard = self._accelerator if jobs[0].needs_accelerator else contextlib.nullcontext()
        with guard, scratch_file() as results, scratch_file() as log:
            process = self._start(jobs, results, log)
            if process is None:
                for job in jobs:
                    names = (LOAD, GOLDEN)
                    yield tuple(not_checked(n, str(job.record), _INTERRUPTED) for n in names)
                return
            try:
                yield from self._watch(process, jobs, results, log)
            finally:
                self._kill(process)

    def _watch(
        self,
        process: subprocess.Popen[bytes],
        jobs: Sequence[Job],
        results: IO[bytes],
        log: IO[bytes],
    ) -> Iterator[tuple[Outcome, ...]]:
        """Yield outcomes as they come, until one fails or the child ends."""
        finished, deadline = 0, time.monotonic() + self._timeout
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_TICK)
            code = process.returncode
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
            self._kill(process)
            exited = ChildExit(code, self._timeout, _tail(log))
            yield outcomes_after_exit(jobs[0].record, said[0] if said else [], exited)

    def _start(
        self, jobs: Sequence[Job], results: IO[bytes], log: IO[bytes]
    ) -> subprocess.Popen[bytes] | None:
        """Start a child for these jobs; None once `run` has ended."""
        path = [str(Path(entry).absolute()) for entry in sys.path if entry]
        arguments = [path, [job.to_json() for job in jobs]]
        with self._lock:
            if self._stopped:
                return None
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", _BOOTSTRAP, *map(json.dumps, arguments)],
                stdin=subprocess.PIPE,
                stdout=results,
                stderr=log,
                env=jobs[0].environment(os.environ),
                start_new_session=True,
            )
            self._running.add(process)
        return process

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill a child, if it still runs, and all that it started."""
        with self._lock:
            is_mine = process in self._running
            self._running.discard(process)
        if is_mine:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # nobody is left in it
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()

    def _stop(self) -> None:
        with self._lock:
            self._stopped = True
            running = list(self._running)
        for process in running:
            self._kill(process)


def _tail(file: IO[bytes]) -> str:
    """Return the end of a child's log."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _LOG_TAIL))
    return file.read().decode("utf-8", "replace").strip()
