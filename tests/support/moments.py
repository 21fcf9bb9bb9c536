"""Commands that get a signal at a moment of theirs, in forks of a process with jax."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.forks import forked

# A command in a fork of a fork, which waits for it and for all that it leaves running.
CODE = """
import ctypes, json, os, signal, sys
given = json.loads(sys.argv[1])
PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
child = os.fork()
if child:
    _, status = os.waitpid(child, 0)
    left = 0
    while True:
        try:
            os.wait()
            left += 1
        except ChildProcessError:
            break
    found = {"code": os.waitstatus_to_exitcode(status), "left": left}
    print(json.dumps({**found, "errors": open(given["errors"], errors="replace").read()}))
else:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    errors = os.open(given["errors"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(errors, 1)
    os.dup2(errors, 2)
    left = [given["skip"]]
    def audit(event, arguments):
        if event != given["event"] or given["text"] not in " ".join(map(str, arguments)):
            return
        left[0] -= 1
        if left[0] == -1:
            os.write(errors, b"(reached)\\n")
            os.kill(os.getpid(), given["number"])
    exec(given["first"])
    sys.addaudithook(audit)
    if given["hook"]:
        from hatchling.build import build_wheel
        build_wheel(given["hook"])
    else:
        from aotbuild.cli.__main__ import main
        sys.argv[1:] = given["arguments"]
        main()
"""


@dataclass(frozen=True)
class Moment:
    """An audit event of Python, one of whose arguments has a text; not the first `skip` of them."""

    event: str
    text: str
    skip: int = 0

    def __str__(self) -> str:
        return f"{self.event} {self.text}{f' {self.skip}' if self.skip else ''}"


@dataclass(frozen=True)
class Ended:
    """How a command ended: exit code, what it printed, and how many processes outlived it."""

    code: int
    errors: str
    left: int

    @property
    def was_reached(self) -> bool:
        """Whether the moment came."""
        return "(reached)" in self.errors


def run_until(
    moment: Moment,
    number: signal.Signals,
    project: Path,
    temporary: Path,
    *arguments: str,
    wheel: Path | None = None,
    first: str = "",
    **env: str,
) -> Ended:
    """Run `aotbuild ARGUMENTS` in a project, or have hatchling build a wheel into a folder.

    It gets the signal at the moment. `first` is code that runs before. Temporary files go to
    `temporary`.
    """
    given: Mapping[str, Any] = {
        "event": moment.event,
        "text": moment.text,
        "skip": moment.skip,
        "number": int(number),
        "arguments": arguments,
        "hook": wheel and str(wheel),
        "first": first,
        "errors": str(temporary.with_name(f"{temporary.name}.errors")),
    }
    variables = {"TMPDIR": str(temporary), "AOTBUILD_JOBS": "1", **env}
    return Ended(**forked(CODE, json.dumps(given), path=project, **variables))


def leftovers(*folders: Path) -> list[str]:
    """Return what only an ended build leaves: its temporary folders, and files of them."""
    found = [path for folder in folders for path in folder.rglob(".aotbuild-*")]
    return sorted(os.fspath(path) for path in found)
