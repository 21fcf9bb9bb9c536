"""The distribution that a file was installed by. Apart, as importlib.metadata takes 10 ms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from aotbuild.format.archives import RegularZip
from aotbuild.format.dist_info import UNREADABLE, WheelDistribution
from aotbuild.format.index import FOLDER_NAME, INDEX_NAME
from aotbuild.format.layout import home_of


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
        with suppress(*UNREADABLE), RegularZip(root) as archive:
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
