"""Processes that fork: how a fork begins and ends, and what it leaves."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import faulthandler
import os
import random
import resource
import signal
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NoReturn

_SEED = 0
# How long functions that were registered with atexit may take, in seconds.
_LONGEST_LEAVING = 10.0
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def fork() -> int:
    """Fork; the child ends with this process, even if it is deep in native code.

    Python warns of threads: there are only those of OpenBLAS, which knows forks.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        end_with_parent()
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


def closed_text(error: OSError) -> str:
    """Return what is said where a process cannot write what it must."""
    return f"aotbuild: {error.strerror}: does the project's code close files it did not open?"


def end_with_parent() -> None:
    """Have the kernel kill this process when the thread that started it ends (Linux)."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    with contextlib.suppress(AttributeError):  # not Linux
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def fix_random_numbers() -> None:
    """Seed the generators of Python and numpy: all functions of a wheel draw the same numbers.

    A module that draws its weights without a seed is imported once for each job.
    """
    # Not at the top: numpy is slow to import, and a worker may get no job.
    import numpy as np

    random.seed(_SEED)
    np.random.seed(_SEED)


def adopt_orphans() -> None:
    """Become the parent of what a fork leaves, as init is of what nobody else adopts."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_orphans(kept: int = 0) -> None:
    """Kill the children of this process but one, and theirs, which it adopts then."""
    while children := [child for child in children_of() if child != kept]:
        kill(children)
        for child in children:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, 0)


def kill(processes: Iterable[int]) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal.SIGKILL)


def children_of(process: int | str = "self") -> list[int]:
    """Return the children of a process; none where the system does not say it."""
    lists = Path(f"/proc/{process}/task").glob("*/children")
    found = []
    for each in lists:
        with contextlib.suppress(OSError):  # a thread has ended
            found += [int(number) for number in each.read_text().split()]
    return found


def wait(child: int) -> int:
    with without_stack():
        return os.waitpid(child, 0)[1]


@contextlib.contextmanager
def without_stack() -> Iterator[None]:
    """Leave it to the fork to print its stack when all of this group gets SIGABRT."""
    faulthandler.disable()
    before = signal.signal(signal.SIGABRT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGABRT, before)
        faulthandler.enable()


def was_written_to(pipe: int) -> bool:
    # Processes that the user's code has started may have it open, too.
    os.set_blocking(pipe, False)
    try:
        return os.read(pipe, 1) != b""
    except BlockingIOError:
        return False
    finally:
        os.close(pipe)


def end_as(status: int) -> NoReturn:
    number = os.waitstatus_to_exitcode(status)
    if number < 0:
        faulthandler.disable()
        # The fork has left its memory to the debugger, if anybody wants it.
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        if -number != signal.SIGKILL:
            signal.signal(-number, signal.SIG_DFL)
        os.kill(os.getpid(), -number)
    os._exit(abs(number))
