"""The project's modules, made from their sources: bytecode may be that of another text.

Python takes a module's bytecode (`__pycache__`) for that of its source if time, in seconds, and
size are equal. Archives, containers and checkouts can give an edited file the time of the one
before. The wheel has the source, so that is what its executables must be of.
"""

from __future__ import annotations

import importlib.machinery
import os
import sysconfig
from functools import cache
from types import CodeType
from typing import Any

_OURS = ("aotbuild", "hatch_aotbuild", "__main__")
_INSTALLED = ("/site-packages/", "/dist-packages/")
_STDLIB = tuple(
    {os.path.realpath(sysconfig.get_path(name)) + os.sep for name in ("stdlib", "platstdlib")}
)


def import_own_sources() -> None:
    """Compile the project's modules from here on; those of libraries are taken as they are."""
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
