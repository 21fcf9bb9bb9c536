"""Code that needs a process to itself, with jax: run in a fork of one that has imported it.

Importing jax takes a second of CPU time, hundreds of times in a run of the tests. What must not
find jax imported, or looks at how a process begins, is for `support.processes`.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from support.processes import ROOT, TESTS, clean_environment

SERVER = Path(__file__).with_name("fork_server.py")


class ForkServer:
    """One process, and the forks that it makes of itself. Not thread-safe."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._process = subprocess.Popen(
            [sys.executable, str(SERVER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=clean_environment(),
        )

    def run(self, code: str, *arguments: str, **job: Any) -> str:
        """Return what code prints in a fork; show its stderr if it fails."""
        out, err = (Path(self._folder.name, name) for name in ("out", "err"))
        job |= {"code": code, "arguments": arguments, "out": str(out), "err": str(err)}
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        status = self._process.stdout.readline().strip()
        assert status == "0", f"exit {status}\n{out.read_text()}\n{err.read_text()}"
        return out.read_text()

    def close(self) -> None:
        """End the server."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._folder.cleanup()


@cache
def server() -> ForkServer:
    made = ForkServer()
    atexit.register(made.close)
    return made


# For tests of devices: where an array is, why a call is refused, and what a test gets.
DEVICES = """
import json
import aotbuild
def ids(array):
    return [d.id for d in array.sharding._device_assignment]
def refusal(call, *args):
    try:
        return str(call(*args)) and "no refusal"
    except aotbuild.errors.AotbuildError as err:
        return str(err)
def show(value):
    print(json.dumps(value))
"""


def forked(
    code: str, *arguments: str, devices: int = 1, path: Path | None = None, **env: str
) -> Any:
    """Run code with `sys.argv[1:]` and so many devices; return the JSON of its last line.

    It imports from `path`, and begins there.
    """
    printed = server().run(
        code,
        *arguments,
        path=[*([str(path)] if path else []), str(TESTS), str(ROOT)],
        environment={"XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}", **env},
        cwd=os.fspath(path or Path.cwd()),
    )
    return json.loads(printed.splitlines()[-1])
