"""The worker's side of the protocol: JSON lines in on stdin, JSON lines out on the real stdout.

First line in:  {"blobs": folder, …}            see build.protocol.WorkerInit
Then jobs:      {"job": {…}}                    see build.jobs.Job
Lines out:      {"ready": true}
                {"start": target}               before each unit, so that a crash has a name
                {"target": …, "function": {…}, "record": {…}}
                {"target": …, "stage": …, "error": text}
                {"golden_start": true}          before the function is called, see worker.golden
                {"golden": …, …}                what it returned
                {"notes": […], "skeleton": […]} and no other, where the first line says "explain"
                {"done": true}                  the job is finished

The user's code reads an empty stdin, and whatever it prints goes to stderr, which the parent keeps
as the log.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
from pathlib import Path
from typing import IO, Any

from aotbuild.build.settings import WorkerInit


def main() -> None:
    """Serve jobs until stdin ends."""
    lines, out = _take_stdin(), _take_stdout()
    # A compiler that dies of a signal leaves the Python stack in the log.
    faulthandler.enable()
    init = WorkerInit.from_json(json.loads(lines.readline()))
    _send(out, {"ready": True})
    session: Any = None
    for line in lines:
        if session is None:
            session = _start(init)
        for message in session.run(json.loads(line)["job"]):
            _send(out, message)
        _send(out, {"done": True})


def _take_stdin() -> IO[str]:
    """Keep the real stdin for the protocol; who else reads finds an empty one."""
    protocol = os.fdopen(os.dup(0), encoding="utf-8")
    with Path(os.devnull).open() as nothing:
        os.dup2(nothing.fileno(), 0)
    return protocol


def _take_stdout() -> IO[str]:
    """Keep the real stdout for the protocol, and send everybody else's output to stderr."""
    protocol = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    # What was printed before a crash is in the log.
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    return protocol


def _start(init: WorkerInit) -> Any:
    # Here, not above: importing jax takes a second that a worker without jobs does not need.
    from aotbuild.worker.session import Session

    return Session(init)


def _send(out: IO[str], message: dict[str, Any]) -> None:
    out.write(json.dumps(message) + "\n")
    out.flush()
