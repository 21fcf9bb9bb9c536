"""The parent's side of `server.py`: a process that is asked what becomes of a damaged package."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from support.processes import clean_environment

SERVER = Path(__file__).parent / "server.py"


class Forks:
    """One server; `cases` is an .npz of inputs and expected outputs, `env` are variables."""

    def __init__(self, cases: Path, arrays: str = "jax", **env: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(SERVER), str(cases), arrays],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=clean_environment(**env),
        )

    def ask(self, place: Path) -> str:
        """Return what becomes of loading and calling all that is in a folder or wheel.

        Of an error of ours, its type alone.
        """
        answer = self.told(place)
        return ": ".join(answer.split(": ")[:2]) if answer.startswith("refused") else answer

    def told(
        self,
        place: Path,
        functions: Iterable[str] | Mapping[str, str] | None = None,
        path: Sequence[Path] = (),
        **load: Any,
    ) -> str:
        """Return what becomes of loading a place and calling some of its functions, in order.

        They are those of the cases, or by name those whose cases they are called with. `path` is
        where to import from, `load` what `aotbuild.load` is given.
        """
        assert self._process.stdin
        assert self._process.stdout
        if functions is not None and not isinstance(functions, Mapping):
            functions = {name: name for name in functions}
        folders = [str(folder) for folder in path]
        job = {"place": str(place), "functions": functions, "path": folders, "load": load}
        self._process.stdin.write(json.dumps(job) + "\n")
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
