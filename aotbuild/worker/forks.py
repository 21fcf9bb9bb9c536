"""Each job runs in a fork of a process that has imported jax, and does nothing else itself.

Importing jax is most of what a process costs before it runs a job. Whatever a job imports, patches,
sets or keeps is gone with its fork: the next one has jax and nothing else. XLA starts its threads
when jax makes a client of a device, which only forks do.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import faulthandler
import gc
import os
import random
import resource
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NoReturn

_SEED = 0
# How long functions that were registered with atexit may take, in seconds.
_LONGEST_LEAVING = 10.0
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def serve_in_forks(
    lines: IO[str], prepare: Callable[[], None], serve: Callable[[str], None]
) -> None:
    """Serve each request in a fork of its own, until the lines end or a fork fails.

    `prepare` is called in this process, before the first fork.

    `serve` gets the request as a line, and may read answers from `lines`. Where a fork ends before
    it has served its request, this process ends as it did, with its exit code or signal. Processes
    that a fork has started and left are killed.
    """
    is_prepared = False
    while line := lines.readline():
        if not is_prepared:
            prepare()
            _adopt_orphans()
            gc.freeze()  # forks then neither walk through jax's objects nor copy them
            is_prepared = True
        reading, writing = os.pipe()
        child = fork()
        if child == 0:
            os.close(reading)
            serve(line)
            os.write(writing, b"1")
            leave()
        os.close(writing)
        status = _wait(child)
        is_served = _was_written_to(reading)
        _end_orphans()
        if not is_served:
            _end_as(status)


def fork() -> int:
    """Fork; the child ends with this process, even if it is deep in native code.

    Python warns of threads: there are only those of OpenBLAS, which knows forks.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        end_with_parent()
        _fix_random_numbers()
    return child


def leave() -> NoReturn:
    """End the process as Python does, but for the tear-down of modules, the slowest part with jax.

    Threads of the user's code are not waited for either, and its functions at exit not for long:
    the next job waits for this process.
    """
    try:
        end = threading.Timer(_LONGEST_LEAVING, os._exit, (0,))
        end.daemon = True
        end.start()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(0)


def end_with_parent() -> None:
    """Have the kernel kill this process when the thread that started it ends (Linux)."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    with contextlib.suppress(AttributeError):  # not Linux
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _fix_random_numbers() -> None:
    """Seed the generators of Python and numpy: all functions of a wheel draw the same numbers.

    Each fork needs it, as Python seeds its own generator there from the system. A module that draws
    its weights without a seed is imported in two forks for each job.
    """
    # Not at the top: numpy is slow to import, and a worker may get no job.
    import numpy as np

    random.seed(_SEED)
    np.random.seed(_SEED)


def _adopt_orphans() -> None:
    """Become the parent of what a fork leaves, as init is of what nobody else adopts."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _end_orphans() -> None:
    """Kill the children of this process, and theirs, which it adopts then."""
    while children := _children():
        for child in children:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, 0)


def _children() -> list[int]:
    """Return the children of this process; none where the system does not say it."""
    lists = Path("/proc/self/task").glob("*/children")
    return [int(number) for each in lists for number in each.read_text().split()]


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
