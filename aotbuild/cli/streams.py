"""stdout and stderr that may be closed, full, or without a reader."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TextIO


def open_streams() -> None:
    """Let streams that were closed when this process began lead nowhere.

    Otherwise Python has None for them, and a file that is opened later takes their place.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # The lowest free number, which is the one that the stream had.
            nowhere = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(nowhere, mode, encoding="utf-8"))


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
