"""Which distribution a file came with, of those in a folder of sys.path or in a wheel."""

from __future__ import annotations

import zipfile
import zlib
from importlib import metadata
from pathlib import Path

# What a damaged wheel or `.dist-info` raises; RuntimeError is zipfile's word for an encrypted one.
UNREADABLE = (
    OSError,
    ValueError,
    KeyError,
    EOFError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)


def find_owner(root: Path, name: str) -> metadata.Distribution | None:
    """Return the distribution below `root` whose RECORD lists the file `name`, or None.

    `root` is a folder of sys.path or a wheel, `name` the path of the file below it, with slashes.
    """
    found = metadata.distributions(path=[str(root)])
    return next((distribution for distribution in found if _lists(distribution, name)), None)


def _lists(distribution: metadata.Distribution, name: str) -> bool:
    # Not `distribution.files`: Python 3.12 and later leave out of it what is inside a wheel.
    try:
        record = distribution.read_text("RECORD") or ""
    except UNREADABLE:
        return False
    return any(line.startswith((f"{name},", f'"{name}",')) for line in record.splitlines())
