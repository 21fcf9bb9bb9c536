"""The `.dist-info` of a distribution, installed or in a wheel. Imported late: takes 10 ms."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from aotbuild.format.files import open_zip
from aotbuild.format.index import FOLDER_NAME, INDEX_NAME
from aotbuild.format.layout import home_of

# Bytes of METADATA, and of RECORD; those of the largest packages have 100 kB, and some MB.
_MOST = {"METADATA": 4 << 20, "RECORD": 64 << 20}
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
            name: _read_text(archive, f"{folder}{name}", most)
            for name, most in _MOST.items()
            if f"{folder}{name}" in archive.namelist()
        }

    def read_text(self, filename: str) -> str | None:
        """Return METADATA or RECORD; None for any other file."""
        return self._texts.get(filename)

    def locate_file(self, path: str | os.PathLike[str]) -> Path:
        """Return the path itself: nothing is on disk."""
        return Path(path)


def _read_text(archive: zipfile.ZipFile, name: str, most: int) -> str:
    info = archive.getinfo(name)
    if info.file_size > most:
        msg = f"{name}: {info.file_size:,} bytes, more than {most:,}"
        raise ValueError(msg)
    return archive.read(info).decode("utf-8")


def installed_version(name: str) -> str | None:
    """Return the version of an installed distribution; None if METADATA does not say it."""
    try:
        found: str | None = metadata.version(name)
    except (metadata.PackageNotFoundError, *UNREADABLE):
        return None
    return found


@dataclass(frozen=True)
class Distribution:
    """A name and a version, as in METADATA."""

    name: str
    version: str


def distribution_at(place: str, header: Mapping[str, Any]) -> Distribution | None:
    """Return the distribution whose RECORD lists the index at `place`; None if there is none.

    A wheel has its own, an installed package the one beside it; a folder that `aotbuild build`
    wrote has none.
    """
    folder = folder_in_wheel(header)
    depth = folder.count("/") + 1
    path = Path(place).absolute()
    if depth == 1 or "/".join(path.parts[-depth:]) != folder:
        return None
    found = find_owner(path.parents[depth - 1], f"{folder}/{INDEX_NAME}")
    return None if found is None else _stated(found)


def folder_in_wheel(header: Mapping[str, Any]) -> str:
    """Return where `_aot` is in the wheel, as `digits/_aot`."""
    parts = (home_of(header) or "").split(".")
    is_name = all(part.isidentifier() for part in parts)
    return "/".join([*parts, FOLDER_NAME]) if is_name else FOLDER_NAME


def find_owner(root: Path, name: str) -> metadata.Distribution | None:
    """Return the distribution in `root` whose RECORD lists the file `name`, or None.

    `root` is a folder of sys.path or a wheel; `name` is the file's path below it, with slashes.
    """
    return next((found for found in _likely_first(root, name) if _lists(found, name)), None)


def _likely_first(root: Path, name: str) -> Iterator[metadata.Distribution]:
    if not root.is_dir():
        with suppress(*UNREADABLE), open_zip(root) as archive:
            yield WheelDistribution(archive)
        return
    # Most distributions have the name of their package, and a large RECORD takes time to read.
    yield from metadata.distributions(name=name.partition("/")[0], path=[str(root)])
    yield from metadata.distributions(path=[str(root)])


def _lists(distribution: metadata.Distribution, name: str) -> bool:
    # Not `distribution.files`: from Python 3.12 on it omits the members of a wheel.
    try:
        record = distribution.read_text("RECORD") or ""
    except UNREADABLE:
        return False
    return any(line.startswith((f"{name},", f'"{name}",')) for line in record.splitlines())


def _stated(distribution: metadata.Distribution) -> Distribution | None:
    """Return the name and version in METADATA, or None if they cannot be read."""
    try:
        stated = distribution.metadata
        if "Name" in stated and "Version" in stated:
            return Distribution(stated["Name"], stated["Version"])
    except UNREADABLE:
        pass
    return None
