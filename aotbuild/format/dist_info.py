"""The `.dist-info` of a distribution, installed or in a wheel. Imported late: takes 10 ms."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import Any

from aotbuild.format.index import FOLDER_NAME, INDEX_NAME
from aotbuild.format.layout import home_of

# What a damaged wheel or `.dist-info` raises. zipfile raises RuntimeError for an encrypted wheel;
# importlib.metadata TypeError if METADATA is missing, and from 2026 on KeyError for a field of it
# (also its backport importlib_metadata, which takes its place in a process once it is imported).
UNREADABLE = (
    *(OSError, ValueError, KeyError, TypeError, EOFError, RuntimeError),
    *(zipfile.BadZipFile, zlib.error),
)


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
    """Return the distribution that has the index at `place`; None if there is none.

    A wheel says it in its name. An installed package is that of the distribution beside it whose
    RECORD lists the index; a folder that `aotbuild build` wrote has none.
    """
    folder = folder_in_wheel(header)
    depth = folder.count("/") + 1
    path = Path(place).absolute()
    if depth == 1 or "/".join(path.parts[-depth:]) != folder:
        return None
    root = path.parents[depth - 1]
    if root.is_file():
        name, _, rest = root.name.partition("-")
        return Distribution(name, rest.partition("-")[0])
    # Most distributions have the name of their package, and a large RECORD takes time to read.
    likely = metadata.distributions(name=folder.partition("/")[0], path=[str(root)])
    for found in chain(likely, metadata.distributions(path=[str(root)])):
        if _lists(found, f"{folder}/{INDEX_NAME}"):
            return _stated(found)
    return None


def folder_in_wheel(header: Mapping[str, Any]) -> str:
    """Return where `_aot` is in the wheel, as `digits/_aot`."""
    parts = (home_of(header) or "").split(".")
    is_name = all(part.isidentifier() for part in parts)
    return "/".join([*parts, FOLDER_NAME]) if is_name else FOLDER_NAME


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
