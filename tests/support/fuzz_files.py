"""Files for readers that take a path: one per name and process, in memory where there is such."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path

_MEMORY = Path("/dev/shm")
_FOLDER: list[Path] = []


def folder() -> Path:
    """Return a folder of this process; it is removed when the process ends."""
    if not _FOLDER:
        where = _MEMORY if _MEMORY.is_dir() else None
        _FOLDER.append(Path(tempfile.mkdtemp(prefix="fuzz-", dir=where)))
        atexit.register(shutil.rmtree, _FOLDER[0], ignore_errors=True)
    return _FOLDER[0]


def as_file(data: bytes, name: str) -> Path:
    """Write an input to a file of that name, and return its path."""
    path = folder() / name
    path.write_bytes(data)
    return path
