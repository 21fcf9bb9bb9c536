"""The `.dist-info` of a distribution, installed or in a wheel. Imported late: takes 10 ms."""

from __future__ import annotations

import os
import zipfile
import zlib
from importlib import metadata
from pathlib import Path

from aotbuild.format.archives import MOST_METADATA, MOST_RECORD, read_text_member

# What a damaged wheel or `.dist-info` raises. zipfile raises RuntimeError for an encrypted wheel;
# importlib.metadata TypeError if METADATA is missing, and from 2026 on KeyError for a field of it
# (also its backport importlib_metadata, which takes its place in a process once it is imported).
UNREADABLE = (
    *(OSError, ValueError, KeyError, TypeError, EOFError, RuntimeError),
    *(zipfile.BadZipFile, zlib.error),
)


class WheelDistribution(metadata.Distribution):
    """What a wheel says of itself: importlib.metadata reads its files whatever their size.

    Raises one of UNREADABLE for a damaged wheel.
    """

    def __init__(self, archive: zipfile.ZipFile) -> None:
        names = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        folder = min(names, key=len).removesuffix("METADATA") if names else ""
        self._texts = {
            name: read_text_member(archive, f"{folder}{name}", most)
            for name, most in (("METADATA", MOST_METADATA), ("RECORD", MOST_RECORD))
            if f"{folder}{name}" in archive.namelist()
        }

    def read_text(self, filename: str) -> str | None:
        """Return METADATA or RECORD; None for any other file."""
        return self._texts.get(filename)

    def locate_file(self, path: str | os.PathLike[str]) -> Path:
        """Return the path itself: nothing is on disk."""
        return Path(path)


def installed_version(name: str) -> str | None:
    """Return the version of an installed distribution; None if METADATA does not say it."""
    try:
        found: str | None = metadata.version(name)
    except (metadata.PackageNotFoundError, *UNREADABLE):
        return None
    return found
