"""A fresh process that does one thing with a package: it gets JSON and answers with one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from aotbuild.format.lifeline import run_tied

_BOOTSTRAP = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {module} import main; main()"
)


def run_fresh(module: str, argument: Any, environment: Mapping[str, str], timeout: float) -> Any:
    """Return what `answer` in a process that runs `main` of a module was given.

    A text says why there is none: the process took longer than `timeout` seconds, or it ended.
    """
    path = json.dumps([str(Path(entry).absolute()) for entry in sys.path if entry])
    code = _BOOTSTRAP.format(module=module)
    try:
        done = run_tied(
            [sys.executable, "-P", "-c", code, path, json.dumps(argument)], timeout, environment
        )
    except subprocess.TimeoutExpired:
        return f"the process took longer than {timeout:g} s"
    if done.returncode:
        why = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        return f"the process ended with {done.returncode}: {why}"
    try:
        return json.loads(done.stdout)
    except ValueError:  # the user's code may exit, or write to every open file
        return "the process ended without an answer"


def answer(make: Callable[[Any], Any]) -> None:
    """Answer what this process was asked, and exit without running destructors."""
    # Native code may print to stdout; only this copy of it carries the answer.
    results = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    results.write(json.dumps(make(json.loads(sys.argv[2]))) + "\n")
    results.flush()
    os._exit(0)
