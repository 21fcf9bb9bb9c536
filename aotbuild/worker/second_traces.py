"""Trace each function once more in another process, with other clocks and random numbers.

The second process imports what a job names and traces its function while the job's own process does
the same. In the second one, clocks are shifted and random sources have another seed
(`worker.shifted`), and the function has been traced before: that may have changed what it reads,
such as a counter or a list.

A second process stays for the next jobs that import the same modules. It makes nothing that is
packaged, and what earlier jobs have left in it can only make its program differ. Where it differs,
the job is served again, beside a new second process.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Callable
from dataclasses import asdict, replace
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import IO, NoReturn

import jax

from aotbuild.build.jobs import Job
from aotbuild.build.protocol import RunJob, read_request
from aotbuild.errors import AotbuildError
from aotbuild.worker import forks
from aotbuild.worker.imports import modules_of
from aotbuild.worker.lower import lower
from aotbuild.worker.purity import Lower, Lowering, Second, compare
from aotbuild.worker.shifted import shift
from aotbuild.worker.trace import ReadsKeptTracer, Traced

# Imports what a job names, and returns what traces its function.
Prepare = Callable[[Job], Callable[[], Traced]]
_TRACER_ERRORS = (ReadsKeptTracer, jax.errors.UnexpectedTracerError)


class _Outcome(IntEnum):
    """How the fork of a job ended."""

    EQUAL = 0  # the second process may serve the next job
    ENDED = 1
    AGAIN = 2  # the job needs a new second process


class _Differs(BaseException):
    """A program differs from that of a second process that has served other jobs."""


class SecondTraces:
    """The second processes of a worker, one at a time.

    In each of them, `start` is called once; what it returns is called for each job.
    """

    def __init__(self, start: Callable[[], Prepare]) -> None:
        self._start = start
        self._process: SecondProcess | None = None
        # Their jobs leave in a process what makes the next ones differ.
        self._never_shared: set[tuple[str, ...]] = set()

    def serve(self, line: str, job: Job, serve: Callable[[SecondProcess], None]) -> None:
        """Serve a job, whose request is `line`, in a fork, beside a second process."""
        modules, outcome = modules_of(job.function.references), _Outcome.AGAIN
        while outcome == _Outcome.AGAIN:
            process = self._process
            if process is None or process.modules != modules or not process.send(line):
                self.close()
                process = self._process = SecondProcess(modules, self._start)
                process.send(line)
            outcome = _Outcome(forks.serve_in_fork(partial(_serve, serve, process), process.pid))
            if outcome == _Outcome.AGAIN:
                self._never_shared.add(modules)
            if outcome != _Outcome.EQUAL:
                process.kill()  # it may still trace
                self.close()
        if modules in self._never_shared:
            self.close()

    def close(self) -> None:
        """End the process there is, and what it has left running."""
        if self._process is not None:
            self._process.close()
            self._process = None
            forks.end_orphans()


def _serve(serve: Callable[[SecondProcess], None], process: SecondProcess) -> int:
    try:
        serve(process)
    except _Differs:
        return _Outcome.AGAIN
    return _Outcome.EQUAL if process.is_equal else _Outcome.ENDED


class SecondProcess:
    """A fork of this process, which forks for jobs inherit: they compare, and `is_equal` is theirs.

    Jobs that it serves import `modules`.
    """

    def __init__(self, modules: tuple[str, ...], start: Callable[[], Prepare]) -> None:
        self.modules = modules
        self.is_equal = False
        self._sent = 0
        requests, self._requests = _pipe()
        self._answers, answers = _pipe()
        self.pid = forks.fork()
        if self.pid == 0:
            self._requests.close()
            self._answers.close()
            _answer_all(start, requests, answers)
        requests.close()
        answers.close()

    def send(self, line: str) -> bool:
        """Send the request of a job; return whether the process still reads."""
        self._sent += 1
        try:
            self._requests.write(line)
            self._requests.flush()
        except OSError:
            return False
        return True

    def begin_check(self, traced: Traced, lower: Lower) -> Callable[[], list[str]]:
        """Lower a trace of the job that was sent; return what compares it with the other one.

        That waits for the process, and returns notes, or raises TraceRefused if the two differ.
        """
        mine = Lowering.of(traced, lower)
        self.send(f"{mine.digest}\n")
        jobs = self._sent - 1
        return lambda: self._compare(traced, mine, is_new=jobs == 1)

    def _compare(self, traced: Traced, mine: Lowering, *, is_new: bool) -> list[str]:
        second = self._answer()
        if not is_new and (second.lowering != mine or second.keeps_tracers):
            raise _Differs
        notes = compare(traced, mine, second)
        self.is_equal = True
        return notes

    def _answer(self) -> Second:
        line = self._answers.readline()
        if not line:
            return Second(error="the process of the second trace ended")
        found = json.loads(line)
        lowering = found["lowering"]
        if lowering is not None:
            lowering = Lowering(**{**lowering, "rows": tuple(lowering["rows"])})
        return Second(**{**found, "lowering": lowering, "reads": tuple(found["reads"])})

    def kill(self) -> None:
        """End the process in the middle of a trace."""
        os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Let the process end, and wait for it."""
        for pipe in (self._requests, self._answers):
            with contextlib.suppress(OSError):
                pipe.close()
        os.waitpid(self.pid, 0)


def _pipe() -> tuple[IO[str], IO[str]]:
    reading, writing = os.pipe()
    return os.fdopen(reading, encoding="utf-8"), os.fdopen(writing, "w", encoding="utf-8")


def _answer_all(start: Callable[[], Prepare], requests: IO[str], answers: IO[str]) -> NoReturn:
    """Answer for each job, in the second process, until there are no more requests."""
    try:
        with Path(os.devnull).open("r+b") as nothing:  # the job's own process prints the same
            os.dup2(nothing.fileno(), 1)
            os.dup2(nothing.fileno(), 2)
        # What the user's code forks does not keep the job waiting.
        os.register_at_fork(after_in_child=partial(os.close, answers.fileno()))
        prepare = start()
        while line := requests.readline():
            request = read_request(line)
            assert isinstance(request, RunJob), "the first line of each job is its request"
            found = _trace_twice(partial(prepare, request.job), requests)
            answers.write(f"{json.dumps(asdict(found))}\n")
            answers.flush()
    finally:
        forks.leave()


def _trace_twice(prepare: Callable[[], Callable[[], Traced]], requests: IO[str]) -> Second:
    reads: tuple[str, ...] | dict[str, None] = ()
    keeps_tracers = False
    try:
        trace = prepare()
        reads = shift()
        first = trace()
        try:
            # Another value of a context makes jax trace functions under jit again, too.
            with jax.make_user_context(0)(1):
                again = trace()
                # The first trace may have rebound variables of closures in the arguments, as
                # optax.cosine_decay_schedule does. Calls trace nothing.
                kept = replace(again, signature=first.signature)
                lowering = Lowering.of(kept, lower)
        except BaseException as err:
            if not any(isinstance(each, _TRACER_ERRORS) for each in (err, err.__cause__)):
                raise
            kept, lowering, keeps_tracers = first, Lowering.of(first, lower), True
        # Waits until the job's own process has lowered the function.
        if lowering.digest != requests.readline().strip():
            lowering = lowering.with_rows(kept)
    except BaseException as err:  # noqa: BLE001 (the user's code may raise anything)
        text = str(err) if isinstance(err, AotbuildError) else f"{type(err).__name__}: {err}"
        return Second(error=text, reads=tuple(reads))
    return Second(lowering, "", keeps_tracers, tuple(reads))
