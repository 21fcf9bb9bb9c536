"""Jobs run in a fork of a process that has imported jax, and does nothing else itself.

Importing jax is most of what a process costs before it runs a job. A fork that may not serve a job,
because of what it has imported or changed, gives it back and ends; the next fork has only jax
again. XLA starts its threads when jax makes a client of a device, which only forks do.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import resource
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import IO, NoReturn

from aotbuild.worker.recording.reader import unseen


def serve_in_forks(
    lines: IO[str],
    prepare: Callable[[], None],
    serve: Callable[[str], bool],
    leave: Callable[[], None],
) -> None:
    """Serve requests from forks, one after the other, until the lines or a fork end.

    `prepare` is called in this process, before the first fork.

    `serve` gets the first request as a line, and reads the others itself. It returns True if its
    process may not serve the last one, which is sent again. `leave` ends a fork. This process ends
    as its forks do, with their exit code or signal.
    """
    while line := lines.readline():
        prepare()
        reading, writing = os.pipe()
        child = _fork()
        if child == 0:
            os.close(reading)
            _draw_other_numbers()
            if serve(line):
                os.write(writing, b"1")
            leave()
        os.close(writing)
        status = _wait(child)
        if not _was_written_to(reading):
            _end_as(status)


def _fork() -> int:
    """Fork. Python warns of threads: there are only those of OpenBLAS, which knows forks."""
    with unseen(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return os.fork()


def _draw_other_numbers() -> None:
    """Seed numpy's generator as in a new process; Python's own seeds itself."""
    random = sys.modules.get("numpy.random")
    if random is not None:
        with unseen():
            random.seed()


def _wait(child: int) -> int:
    with _without_stack():
        return os.waitpid(child, 0)[1]


@contextlib.contextmanager
def _without_stack() -> Iterator[None]:
    """Leave it to the fork to print its stack when all of this group gets SIGABRT."""
    faulthandler.disable()
    before = signal.signal(signal.SIGABRT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGABRT, before)
        faulthandler.enable()


def _was_written_to(pipe: int) -> bool:
    # Processes that the user's code has started may have it open, too.
    os.set_blocking(pipe, False)
    try:
        return os.read(pipe, 1) != b""
    except BlockingIOError:
        return False
    finally:
        os.close(pipe)


def _end_as(status: int) -> NoReturn:
    number = os.waitstatus_to_exitcode(status)
    if number < 0:
        faulthandler.disable()
        # The fork has left its memory to the debugger, if anybody wants it.
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        if -number != signal.SIGKILL:
            signal.signal(-number, signal.SIG_DFL)
        os.kill(os.getpid(), -number)
    os._exit(abs(number))
