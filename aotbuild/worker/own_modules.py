"""The project's own modules: which a process has imported, and that they are made from sources.

What belongs to a package must not depend on what the store has: what a job imports and traces with
counts. Calling a function with golden or padded inputs, which the store may spare, does not.
"""

from __future__ import annotations

import importlib.machinery
import os
import sys
import sysconfig
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

_FOREIGN = ("site-packages", "dist-packages", "__pycache__")
_OURS = ("aotbuild", "hatch_aotbuild", "__main__")
_INSTALLED = ("/site-packages/", "/dist-packages/")
_STDLIB = tuple(
    {os.path.realpath(sysconfig.get_path(name)) + os.sep for name in ("stdlib", "platstdlib")}
)


def imported_files(root: Path | None) -> tuple[str, ...]:
    """Return the files of imported modules below a folder, relative to it, with slashes.

    A process that looks before it forks spares its forks most of the time that this takes.
    """
    if root is None:
        return ()
    folder = os.path.realpath(root)
    files = {getattr(module, "__file__", None) for module in [*sys.modules.values()]}
    below = {_below(folder, file) for file in files if isinstance(file, str)}
    return tuple(sorted(name for name in below if name is not None))


@cache
def _below(root: str, file: str) -> str | None:
    """Return a file's path below the project, with slashes; None for what is not the project's.

    A file that was removed since its import counts.
    """
    path = Path(os.path.realpath(file))
    if not path.is_relative_to(root):
        return None
    relative = path.relative_to(root)
    # An environment may be in the project's folder.
    is_foreign = any(part in _FOREIGN or part.startswith(".") for part in relative.parts[:-1])
    return None if is_foreign else relative.as_posix()


def import_own_sources() -> None:
    """Compile the project's modules from here on; those of libraries are taken as they are.

    Python takes a module's bytecode (`__pycache__`) for that of its source if time, in seconds, and
    size are equal. Archives, containers and checkouts can give an edited file the time of the one
    before. The wheel has the source, so that is what its executables must be of.
    """
    loader: Any = importlib.machinery.SourceFileLoader
    plain = loader.get_code

    def get_code(self: Any, fullname: str) -> CodeType | None:
        path = self.get_filename(fullname)
        if not is_own(fullname, path):
            found: CodeType | None = plain(self, fullname)
            return found
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code

    loader.get_code = get_code


def is_own(name: str, file: Any) -> bool:
    """Return whether a module is the user's own: neither installed nor of the standard library."""
    is_ours = name.partition(".")[0] in _OURS
    return isinstance(file, str) and not is_ours and not _is_installed(file)


@cache
def _is_installed(file: str) -> bool:
    places = (file, os.path.realpath(file))
    return any(p.startswith(_STDLIB) or any(part in p for part in _INSTALLED) for p in places)
