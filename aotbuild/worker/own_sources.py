"""The project's modules, made from their sources: bytecode may be that of another text.

Python takes a module's bytecode (`__pycache__`) for that of its source if time, in seconds, and
size are equal. Archives, containers and checkouts can give an edited file the time of the one
before. The wheel has the source, so that is what its executables must be of.
"""

from __future__ import annotations

import importlib.machinery
from types import CodeType
from typing import Any

from aotbuild.worker.recording.owners import kind_of


def import_own_sources() -> None:
    """Compile the project's modules from here on; those of libraries are taken as they are."""
    loader: Any = importlib.machinery.SourceFileLoader
    plain = loader.get_code

    def get_code(self: Any, fullname: str) -> CodeType | None:
        path = self.get_filename(fullname)
        if kind_of(fullname, path) != "own":
            found: CodeType | None = plain(self, fullname)
            return found
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code

    loader.get_code = get_code
