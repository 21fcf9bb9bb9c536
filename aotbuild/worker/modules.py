"""The modules of the project that a process has imported.

What belongs to a package must not depend on what the store has: what a job imports and traces with
counts. Calling a function with golden or padded inputs, which the store may spare, does not.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path

_FOREIGN = ("site-packages", "dist-packages", "__pycache__")


class ProjectModules:
    """The modules below a project's folder, as far as this process has imported them."""

    def __init__(self, root: Path | None) -> None:
        self._root = None if root is None else os.path.realpath(root)

    def files(self) -> tuple[str, ...]:
        """Return the path of each module's file, relative to the project's folder."""
        return tuple(sorted(files_below(self._root))) if self._root else ()


def files_below(root: str) -> set[str]:
    """Return the files of imported modules below a folder, relative to it, with slashes.

    A process that looks before it forks spares its forks most of the time that this takes.
    """
    files = {getattr(module, "__file__", None) for module in [*sys.modules.values()]}
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
