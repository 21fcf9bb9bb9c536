"""The parent's side of `server.py`: a process that is asked what becomes of a damaged package."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from support.processes import clean_environment

SERVER = Path(__file__).parent / "server.py"


class Forks:
    """One server; `cases` is an .npz of inputs and expected outputs."""

    def __init__(self, cases: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(SERVER), str(cases)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=clean_environment(),
        )

    def ask(self, place: Path) -> str:
        """Return what becomes of loading and calling all that is in a folder or wheel."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(str(place)) + "\n")
        self._process.stdin.flush()
        answer: str = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        """End the server."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._process.stdout.close()
