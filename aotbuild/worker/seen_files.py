"""Files of the project as this process saw them: modules when they were loaded, and what it writes.

A digest that is taken later may be that of an edit that Python has not loaded. And what the user's
code writes itself, as generated modules and caches, is no edit of somebody else.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.util import source_from_cache
from pathlib import Path
from typing import Any

from aotbuild.format.sources import file_digest
from aotbuild.worker.recording.reader import as_path, unseen

_BOOTSTRAP = "importlib._bootstrap_external"
_WRITES = os.O_WRONLY | os.O_RDWR
# Events that name paths which are others afterwards, and how many.
_CHANGING = {
    **dict.fromkeys(("os.remove", "os.truncate", "os.utime", "os.chmod", "shutil.rmtree"), 1),
    **dict.fromkeys(("os.rename", "os.link", "os.symlink", "shutil.move"), 2),
}
# Nobody knows what these write: SQLite writes in C, also beside its databases.
_PROCESSES = {
    "sqlite3.connect",
    *("subprocess.Popen", "os.system", "os.posix_spawn", "os.spawn", "os.exec"),
    *("os.fork", "os.forkpty"),
}
_BYTECODE = f"{os.sep}__pycache__{os.sep}"


class SeenFiles:
    """Sees them from now on. `below` returns the name of a project's file, None for others."""

    def __init__(self, root: str, below: Callable[[str], str | None]) -> None:
        self._folders = tuple(f"{each}{os.sep}" for each in {root, os.path.realpath(root)})
        self._below = below
        self.loaded: dict[str, str] = {}
        self.started_processes = False
        self._written: set[str] = set()
        sys.addaudithook(self._hook)

    def written(self) -> tuple[str, ...]:
        """Return the files and folders that this process wrote, made or removed, and forget them.

        They are relative to the project, with slashes.
        """
        paths, self._written = self._written, set()
        found = set()
        for path in paths:
            # Not of a link itself: the path leads to where the code wrote.
            real = os.path.realpath(path)
            found |= {
                place.removeprefix(folder)
                for place in (path, real)
                for folder in self._folders
                if place.startswith(folder)
            }
        return tuple(sorted(found))

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            self._opened(*arguments)
        elif event == "import":
            if arguments[1]:  # an extension module
                self._load(os.fsdecode(arguments[1]))
        elif event in _CHANGING:
            for given in arguments[: _CHANGING[event]]:
                self._write(given)
        elif event in _PROCESSES:
            self.started_processes = True

    def _opened(self, given: Any, _: Any, flags: Any) -> None:
        if isinstance(flags, int) and flags & _WRITES:
            self._write(given)
        elif (
            isinstance(given, str)
            and given.endswith((".py", ".pyc"))
            and sys._getframe(2).f_globals.get("__name__") == _BOOTSTRAP
        ):
            with suppress(ValueError):
                given = source_from_cache(given)
            self._load(given)

    def _load(self, path: str) -> None:
        """Take the digest of what Python is about to read."""
        if path.startswith(self._folders):
            with unseen(), suppress(OSError):
                name = self._below(path)
                if name is not None:
                    self.loaded.setdefault(name, file_digest(Path(path)))

    def _write(self, given: Any) -> None:
        if isinstance(given, int):
            return  # it was open already, and its name was seen
        with unseen():
            path = as_path(given)
        if path is not None and path.startswith(self._folders) and _BYTECODE not in path:
            self._written.add(path)
