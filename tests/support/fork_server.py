"""Runs code in forks of a process that has imported jax, and started nothing of it.

Reads JSON lines {"code", "arguments", "path", "environment", "cwd", "out", "err"} on stdin, and
writes the exit status of each as a line. A fork is a process of its own to XLA and to aotbuild: no
device was used before, so its flags and its number of devices are its own.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import sys
import warnings
from importlib import metadata
from typing import Any

import jax  # noqa: F401 - what a fork need not import again
import numpy as np  # noqa: F401

LIMIT = 300  # seconds


def main() -> None:
    """Serve until stdin ends; in a fork, run its code and end as a program does."""
    # jax asks for its plugins in each fork: the files of all distributions are read once.
    metadata.entry_points = functools.cache(metadata.entry_points)  # type: ignore[assignment]
    metadata.entry_points(group="jax_plugins")
    for line in sys.stdin:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that jax dislikes fork: no thread of it is there yet
            child = os.fork()
        if child == 0:
            return run(json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
    return None


def run(job: dict[str, Any]) -> None:
    signal.alarm(LIMIT)
    for name, stream in (("out", 1), ("err", 2)):
        os.dup2(os.open(job[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(job["cwd"])
    os.environ.update(job["environment"])
    sys.path[:0] = job["path"]
    sys.argv[:] = ["-c", *job["arguments"]]
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    warnings.filterwarnings("error", category=UserWarning)
    exec(compile(job["code"], "<string>", "exec"), {"__name__": "__main__"})


if __name__ == "__main__":
    main()
