"""The modules of the project that a process has imported, and the digests of their files.

What belongs to a package must not depend on what the store has: what a job imports and traces with
counts. Calling a function with golden or padded inputs, which the store may spare, does not.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from functools import cache, partial
from pathlib import Path

from aotbuild.format.sources import file_digest
from aotbuild.worker.recording.reader import unseen
from aotbuild.worker.seen_files import SeenFiles

_FOREIGN = ("site-packages", "dist-packages", "__pycache__")


class ProjectModules:
    """The modules below a project's folder, as far as this process has imported them."""

    def __init__(self, root: Path | None) -> None:
        self._root = None if root is None else os.path.realpath(root)
        self._known: dict[str, str] = {}
        self.seen = None if root is None else SeenFiles(str(root), partial(_below, str(self._root)))

    def added(self) -> tuple[tuple[str, str], ...]:
        """Return the path and the digest of each module's file that was imported since then."""
        new = sorted(self._files() - self._known.keys())
        digests = {name: self._digest(name) for name in new}
        self._known |= digests
        return tuple(digests.items())

    def _digest(self, name: str) -> str:
        """Return the digest of a file as it was loaded: it may have been edited since.

        What a loader of the user's own read, or Python before this, is not known.
        """
        loaded = self.seen and self.seen.loaded.get(name)
        return loaded or file_digest(Path(str(self._root), name))

    def of(self, names: Iterable[str]) -> tuple[tuple[str, str], ...]:
        """Return the path and the digest of each of these modules' files that is the project's."""
        root = self._root or ""
        files = {getattr(sys.modules.get(name), "__file__", None) for name in names}
        below = {_below(root, file) for file in files if isinstance(file, str)}
        return tuple((n, self._known[n]) for n in sorted(filter(None, below)) if n in self._known)

    def _files(self) -> set[str]:
        if self._root is None:
            return set()
        return files_below(self._root)


def files_below(root: str) -> set[str]:
    """Return the files of imported modules below a folder, relative to it, with slashes.

    A process that looks before it forks spares its forks most of the time that this takes.
    """
    files = {getattr(module, "__file__", None) for module in [*sys.modules.values()]}
    with unseen():
        below = {_below(root, file) for file in files if isinstance(file, str)}
    return {name for name in below if name is not None}


@cache
def _below(root: str, file: str) -> str | None:
    """Return a file's path below the project, with slashes; None for what is not the project's."""
    path = Path(os.path.realpath(file))
    if not path.is_relative_to(root) or not path.is_file():
        return None
    relative = path.relative_to(root)
    # An environment may be in the project's folder.
    is_foreign = any(part in _FOREIGN or part.startswith(".") for part in relative.parts[:-1])
    return None if is_foreign else relative.as_posix()
