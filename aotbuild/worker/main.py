"""The worker's side of the protocol (build.protocol): serve jobs from stdin, reply on stdout.

The user's code reads an empty stdin, and whatever it prints goes to stderr, which the parent keeps
as the log.
"""

from __future__ import annotations

import faulthandler
import os
import socket
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

from aotbuild.build.protocol import (
    Fetched,
    Hello,
    Ready,
    Reply,
    RunJob,
    Started,
    Wanted,
    WrongVersion,
    read_request,
    to_line,
)
from aotbuild.worker.forks import closed_text, end_with_parent
from aotbuild.worker.shared_imports import serve_in_forks

if TYPE_CHECKING:
    from aotbuild.build.jobs import Job
    from aotbuild.worker.imports import Imports


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

    serve_in_forks(lines, _Jobs(hello, lines, out))


class _Jobs:
    """What the processes of a worker do: see `shared_imports.Work`. A request is a `job` message.

    jax and what needs it is imported by `prepare`: a worker may get no job.
    """

    def __init__(self, hello: Hello, lines: IO[str], out: IO[str]) -> None:
        self._hello = hello
        self._lines = lines
        self._out = out
        self._imports: Imports | None = None

    def prepare(self) -> None:
        from aotbuild.worker.session import prepare

        prepare()

    def modules(self, line: str) -> tuple[str, ...]:
        from aotbuild.worker.imports import named_modules

        return named_modules(_job(line).function.references)

    def load(self, modules: tuple[str, ...], *, is_second: bool) -> None:
        from aotbuild.worker.imports import Imports

        self._imports = Imports(dict(self._hello.config))
        if not is_second and (doing := self._imports.missing(modules)):
            self._send(Started(doing=doing))
        self._imports.load(modules)

    def serve(self, line: str, second: socket.socket) -> None:
        from aotbuild.worker.purity import SecondTrace
        from aotbuild.worker.session import Session

        assert self._imports is not None, "requests come after `load`"
        send = partial(self._send, process=os.getpid())
        fetch = partial(_ask, self._lines, send)
        session = Session(self._hello, self._imports, fetch, SecondTrace(second, line))
        for reply in session.run(_job(line)):
            send(reply)

    def serve_second(self, first: socket.socket) -> None:
        from aotbuild.worker.purity import serve_second_trace
        from aotbuild.worker.session import tracer

        imports = self._imports
        assert imports is not None, "requests come after `load`"
        serve_second_trace(first, lambda line: tracer(self._hello, imports, _job(line)))

    def _send(self, reply: Reply, process: int = 0) -> None:
        _send(self._out, reply, self._hello.token, process)


def _job(line: str) -> Job:
    request = read_request(line)
    assert isinstance(request, RunJob), "after hello there are only jobs"
    return request.job


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
        sys.exit(closed_text(err))
