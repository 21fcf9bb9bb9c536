"""Which distribution a package came with: its name and version, as `pip list` shows them."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from aotbuild.report.facts import PackageFacts
from aotbuild.spec.index import INDEX_NAME

_FOLDER = "_aot"
# What a damaged wheel or `.dist-info` raises; RuntimeError is zipfile's word for an encrypted one.
_UNREADABLE = (
    OSError,
    ValueError,
    KeyError,
    EOFError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)


@dataclass(frozen=True)
class Distribution:
    """A name and a version, as in METADATA."""

    name: str
    version: str


def folder_in_wheel(facts: PackageFacts) -> str:
    """Return where `_aot` is in the wheel, as `digits/_aot`."""
    parts = str(facts.header.get("package", "")).split(".")
    return "/".join([*parts, _FOLDER]) if all(part.isidentifier() for part in parts) else _FOLDER


def distribution_of(facts: PackageFacts) -> Distribution | None:
    """Return the distribution whose RECORD lists this index; None where there is none to read.

    Of a wheel that is its own, of an installed package the one beside it. A folder that
    `aotbuild build` wrote belongs to none.
    """
    folder = folder_in_wheel(facts)
    depth = folder.count("/") + 1
    place = Path(facts.place).absolute()
    if depth == 1 or "/".join(place.parts[-depth:]) != folder:
        return None
    try:
        return next(_listing(place.parents[depth - 1], f"{folder}/{INDEX_NAME},"), None)
    except _UNREADABLE:
        return None


def _listing(root: Path, row: str) -> Iterator[Distribution]:
    """Yield the distributions in a wheel or in a folder of sys.path whose RECORD has this row."""
    for found in metadata.distributions(path=[str(root)]):
        record = found.read_text("RECORD") or ""
        stated = found.metadata
        listed = any(line.startswith(row) for line in record.splitlines())
        if listed and "Name" in stated and "Version" in stated:
            yield Distribution(stated["Name"], stated["Version"])
