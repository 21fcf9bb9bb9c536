"""The distribution that a file was installed by. Apart, as importlib.metadata takes 10 ms."""

from __future__ import annotations

import zipfile
import zlib
from importlib import metadata
from pathlib import Path

# What a damaged wheel or `.dist-info` raises; zipfile raises RuntimeError for an encrypted one.
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
    """Return the distribution in `root` whose RECORD lists the file `name`, or None.

    `root` is a folder of sys.path or a wheel; `name` is the file's path below it, with slashes.
    """
    found = metadata.distributions(path=[str(root)])
    return next((distribution for distribution in found if _lists(distribution, name)), None)


def _lists(distribution: metadata.Distribution, name: str) -> bool:
    # Not `distribution.files`: from Python 3.12 on it omits the members of a wheel.
    try:
        record = distribution.read_text("RECORD") or ""
    except UNREADABLE:
        return False
    return any(line.startswith((f"{name},", f'"{name}",')) for line in record.splitlines())
