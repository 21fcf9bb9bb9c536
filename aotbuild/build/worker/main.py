"""The worker's side of the protocol: JSON lines in on stdin, JSON lines out on the real stdout.

First line in:  {"blobs": folder, "config": [[name, value]…], "secret_paths": [path…], …}
Then jobs:      {"job": {…}}                    see build.jobs.Job
Lines out:      {"ready": true}
                {"start": target}               before each unit, so that a crash has a name
                {"target": …, "function": {…}, "record": {…}}
                {"target": …, "stage": …, "error": text}
                {"done": true}                  the job is finished

Whatever the user's code prints goes to stderr, which the parent keeps as the log.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any


def main() -> None:
    """Serve jobs until stdin ends."""
    out = _take_stdout()
    init = json.loads(sys.stdin.readline())
    _send(out, {"ready": True})
    session: Any = None
    for line in sys.stdin:
        if session is None:
            session = _start(init)
        for message in session.run(json.loads(line)["job"]):
            _send(out, message)
        _send(out, {"done": True})


def _take_stdout() -> IO[str]:
    """Keep the real stdout for the protocol, and send everybody else's output to stderr."""
    protocol = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return protocol


def _start(init: dict[str, Any]) -> Any:
    import jax

    for name, value in init["config"]:
        jax.config.update(name, value)
    # Locations would carry the paths of this machine into the bytes.
    jax.config.update("jax_traceback_in_locations_limit", 0)
    from aotbuild.build.worker.session import Session

    return Session(Path(init["blobs"]), init["provenance"], init["secret_paths"])


def _send(out: IO[str], message: dict[str, Any]) -> None:
    out.write(json.dumps(message) + "\n")
    out.flush()


def messages(stream: IO[str]) -> Iterator[dict[str, Any]]:
    """Read a worker's lines, on the parent's side."""
    for line in stream:
        yield json.loads(line)
