"""The worker's side of the protocol (build.protocol): serve jobs from stdin, reply on stdout.

The user's code reads an empty stdin, and whatever it prints goes to stderr, which the parent keeps
as the log.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO

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
from aotbuild.worker.forks import end_with_parent, serve_in_forks


def main() -> None:
    """Serve jobs until stdin ends, and then end the process."""
    end_with_parent()
    lines, out = _take_stdin(), _take_stdout()
    # A compiler that dies of a signal leaves the Python stack in the log.
    faulthandler.enable()
    try:
        hello = read_request(lines.readline())
    except WrongVersion as err:
        sys.exit(f"aotbuild: the build speaks {err}")
    assert isinstance(hello, Hello), "the first message is hello"
    _send(out, Ready())

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

    serve_in_forks(lines, _prepare, serve)


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
    for stream in (sys.stdout, sys.stderr):
        # What was printed before a crash is in the log.
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    return protocol


def _prepare() -> None:
    # Not at the top: importing jax takes a second that a worker without jobs does not need.
    from aotbuild.worker.session import prepare

    prepare()


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
