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

from aotbuild.build.jobs import Job
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
from aotbuild.worker.forks import begin_to_fork, end_with_parent


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

    if line := lines.readline():
        _serve_jobs(hello, lines, out, line)


def _serve_jobs(hello: Hello, lines: IO[str], out: IO[str], line: str) -> None:
    # Not at the top: importing jax takes a second that a worker without jobs does not need.
    from aotbuild.worker.second_traces import SecondProcess, SecondTraces
    from aotbuild.worker.session import Session, prepare, second_session

    def serve(job: Job, second: SecondProcess) -> None:
        send = partial(_send, out, token=hello.token, process=os.getpid())
        for reply in Session(hello, partial(_ask, lines, send), second).run(job):
            send(reply)

    prepare()
    begin_to_fork()
    traces = SecondTraces(partial(second_session, hello))
    while line:
        request = read_request(line)
        assert isinstance(request, RunJob), "after hello there are only jobs"
        traces.serve(line, request.job, partial(serve, request.job))
        line = lines.readline()
    traces.close()


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
