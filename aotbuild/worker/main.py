"""The worker's side of the protocol (build.protocol): serve jobs from stdin, reply on stdout.

The user's code reads an empty stdin, and whatever it prints goes to stderr, which the parent keeps
as the log.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, NoReturn

from aotbuild.build.protocol import (
    Fetched,
    Hello,
    Ready,
    Reply,
    RunJob,
    Wanted,
    WrongVersion,
    read_request,
    to_line,
)
from aotbuild.format.files import keep_umask
from aotbuild.worker.forks import end_with_parent, serve_in_forks
from aotbuild.worker.jax_variables import watch_import_statements
from aotbuild.worker.own_modules import import_own_sources, is_own
from aotbuild.worker.printed import keep_printed

# How long functions that were registered with atexit may take, in seconds.
_LONGEST_LEAVING = 10.0


def main() -> None:
    """Serve jobs until stdin ends, and then end the process."""
    end_with_parent()
    lines, out = _take_stdin(), _take_stdout()
    keep_umask()
    # A compiler that dies of a signal leaves the Python stack in the log.
    faulthandler.enable()
    try:
        hello = read_request(lines.readline())
    except WrongVersion as err:
        sys.exit(f"aotbuild: the build speaks {err}")
    assert isinstance(hello, Hello), "the first message is hello"
    _send(out, Ready())
    import_own_sources()
    watch_import_statements()

    def serve(line: str) -> None:
        """Run the job of a line."""
        from aotbuild.worker.session import Session, second_fork

        request = read_request(line)
        assert isinstance(request, RunJob), "after hello there are only jobs"
        second = second_fork(hello, request.job)
        send = partial(_send, out, token=hello.token, process=os.getpid())
        session = Session(hello, partial(_ask, lines, send), second)
        for reply in session.run(request.job):
            send(reply)

    serve_in_forks(lines, partial(_prepare, hello), serve, _leave)


def _leave() -> NoReturn:
    """End the process as Python does, but for the tear-down of modules, the slowest part with jax.

    Threads of the user's code are not waited for either, and its functions at exit not for long:
    the next job waits for this process.
    """
    try:
        end = threading.Timer(_LONGEST_LEAVING, os._exit, (0,))
        end.daemon = True
        end.start()
        atexit._run_exitfuncs()
        _drop_own_modules()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(0)


def _drop_own_modules() -> None:
    """Have the project's modules end what they keep, as temporary files that a variable has."""
    for name, module in [*sys.modules.items()]:
        with contextlib.suppress(Exception):  # what is in there may be anything
            if is_own(name, getattr(module, "__file__", None)):
                vars(module).clear()


def _take_stdin() -> IO[str]:
    """Keep the real stdin for the protocol; everything else reads an empty one."""
    protocol = os.fdopen(os.dup(0), encoding="utf-8")
    with Path(os.devnull).open() as nothing:
        os.dup2(nothing.fileno(), 0)
    return protocol


def _take_stdout() -> IO[str]:
    """Keep the real stdout for the protocol, and send everything else's output to stderr."""
    protocol = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    keep_printed()
    return protocol


def _prepare(hello: Hello) -> None:
    # Not at the top: importing jax takes a second that a worker without jobs does not need.
    from aotbuild.worker.session import prepare

    prepare(hello)


def _ask(lines: IO[str], send: Callable[[Reply], None], key: str) -> bool:
    """Have the build fetch an entry of the store, and return whether it did."""
    send(Wanted(key=key))
    reply = read_request(lines.readline())
    assert isinstance(reply, Fetched), "a worker that waits is told nothing else"
    return reply.found


def _send(out: IO[str], reply: Reply, token: str = "", process: int = 0) -> None:
    if process and os.getpid() != process:
        os._exit(0)  # a fork that the user's code made and did not end
    try:
        out.write(to_line(reply, token))
        out.flush()
    except OSError as err:
        sys.exit(f"aotbuild: {err.strerror}: does the project's code close files it did not open?")
