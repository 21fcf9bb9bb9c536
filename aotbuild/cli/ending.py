"""How a command ends early: whoever read its output has left, or somebody asks it to stop."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import Any, NoReturn, TextIO


class Terminated(KeyboardInterrupt):
    """SIGTERM came. All that cleans up after Ctrl-C does so after this."""


def end_on_sigterm() -> None:
    """Let SIGTERM end this process as Ctrl-C does; a second one kills it.

    If the process was started with SIGTERM ignored, that stays.
    """
    if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)


def _terminate(number: int, _: Any) -> NoReturn:
    signal.signal(number, signal.SIG_DFL)
    raise Terminated


def put(stream: TextIO, text: str, *, flush: bool = False) -> None:
    """Write to stdout or stderr. If its reader has left, the command goes on and says nothing.

    OSError, which names it, if stdout cannot be written: its disk may be full. Nobody can be told
    that of stderr.
    """
    try:
        stream.write(text)
        if flush:
            stream.flush()
    except OSError as err:
        if problem := lost(stream, err):
            raise problem from err


def lost(stream: TextIO, err: OSError) -> OSError | None:
    """Give up a stream that cannot be written; return the error to raise, if there is one."""
    abandon(stream)
    if isinstance(err, BrokenPipeError) or stream is sys.stderr:
        return None
    return OSError(err.errno, err.strerror, "stdout")


def abandon(stream: TextIO) -> None:
    """Let a stream lead nowhere, what waits to be written included."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def flush_all() -> OSError | None:
    """Write what stdout and stderr still hold; return the error of one that cannot be written.

    Python itself would complain about closed pipes.
    """
    problem = None
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as err:
            problem = lost(stream, err) or problem
            with suppress(OSError):
                stream.flush()
    return problem
