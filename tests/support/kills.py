"""Builds that are killed at a write of theirs, and what they leave behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from aotbuild.store.prune import prune
from support.processes import ROOT, TESTS, clean_environment

# Orphans become its children, so it ends when all processes of the build have ended.
LAUNCHER = """
import ctypes, os, subprocess, sys
PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
code = subprocess.call(sys.argv[1:])
while True:
    try:
        os.wait()
    except ChildProcessError:
        break
print(code)
"""
# For a whole build, and for what a killed one leaves to end.
PATIENCE = 120


@dataclass(frozen=True)
class Write:
    """One write of a build: by the build itself or its worker, what, by which functions of ours."""

    role: str
    event: str
    place: str
    number: int

    def __str__(self) -> str:
        return f"{self.role}: {self.event} in {self.place}, {self.number}"


@dataclass(frozen=True)
class Case:
    """A build in a folder of its own: its output, the layers of its store, its temporary files."""

    folder: Path
    project: Path
    command: tuple[str, ...]
    layers: tuple[str, ...]

    def run(self, at: Write | None = None, log: Path | None = None) -> bool:
        """Run the build, which must succeed; return whether it was killed instead, at a write.

        It is killed there.
        """
        done = self.folder.with_suffix(".killed")
        done.unlink(missing_ok=True)
        faults = {
            "root": str(self.folder),
            "log": str(log or self.folder.with_suffix(".log")),
            "at": [at.role, at.event, at.place, at.number] if at else None,
            "done": str(done),
        }
        temporary = self.folder / "tmp"
        temporary.mkdir(parents=True, exist_ok=True)
        path = (TESTS / "support" / "faults", ROOT, ROOT / "hatch_plugin")
        ended = subprocess.run(
            [sys.executable, "-c", LAUNCHER, sys.executable, *self.command],
            env=clean_environment(
                AOTBUILD_STORE=",".join(str(self.stores / name) for name in self.layers),
                AOTBUILD_JOBS="1",
                PYTEST_FAULTS=json.dumps(faults),
                PYTHONPATH=os.pathsep.join(map(str, path)),
                PYTHONDONTWRITEBYTECODE="1",
                SOURCE_DATE_EPOCH="1700000000",
                TMPDIR=str(temporary),
            ),
            cwd=self.project,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
        )
        code = int(ended.stdout.splitlines()[-1])
        was_killed = done.exists()
        assert code == (-signal.SIGKILL if was_killed else 0), f"{at}\n{ended.stdout}"
        return was_killed

    @property
    def stores(self) -> Path:
        """Where the layers of its store are."""
        return self.folder / "stores"

    def leftovers(self) -> list[str]:
        """Return what only a killed build leaves: temporary folders and files.

        Half an entry stays in the store for a day, and is removed by the next `store prune`.
        """
        for name in self.layers:
            prune(self.stores / name, time.time() + 2 * 24 * 3600)
        found = [*self.folder.rglob(".*"), *(self.folder / "tmp").iterdir()]
        return sorted({str(path.relative_to(self.folder)) for path in found})


def writes(log: Path) -> list[Write]:
    """Return the writes of a build, of which this is the log, in their order."""
    return [Write(*json.loads(line)) for line in log.read_text().splitlines()]
