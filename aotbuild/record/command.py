"""Running a command whose processes are watched."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType

_START = Path(__file__).parent / "start"
_PACKAGES = Path(__file__).parent.parent.parent


def run_watched(
    command: Sequence[str], log: Path, *, check: str = "", stdout: int | None = None
) -> int:
    """Run a command, and watch every Python process of it that imports jax; return its exit code.

    Its processes may have another environment. SIGTERM is passed on; of Ctrl-C the terminal tells
    the command itself. The code of a command that a signal ended is 128 and the signal's number.
    `check` is the package that its calls are checked with, `stdout` the descriptor that the command
    prints into. OSError if the command cannot be started.
    """
    environment = watching(os.environ, log, check)
    process = subprocess.Popen(command, env=environment, stdout=stdout)

    def pass_on(number: int, _: FrameType | None) -> None:
        process.send_signal(number)

    before = {
        signal.SIGTERM: signal.signal(signal.SIGTERM, pass_on),
        signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),
    }
    try:
        code = process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return 128 - code if code < 0 else code


def watching(outer: Mapping[str, str], log: Path, check: str) -> dict[str, str]:
    """Return the environment variables of a command that is watched."""
    path = [str(_START), *filter(None, outer.get("PYTHONPATH", "").split(os.pathsep))]
    return {
        **outer,
        "PYTHONPATH": os.pathsep.join(path),
        "AOTBUILD_RECORD": json.dumps([str(log.absolute()), check, str(_PACKAGES)]),
    }
