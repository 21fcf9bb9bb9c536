"""Which distribution a package came with: its name and version, as `pip list` shows them."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from aotbuild.report.facts import PackageFacts
from aotbuild.runtime.distribution import UNREADABLE, find_owner
from aotbuild.spec.index import FOLDER_NAME, INDEX_NAME
from aotbuild.spec.parts import home_of


@dataclass(frozen=True)
class Distribution:
    """A name and a version, as in METADATA."""

    name: str
    version: str


def folder_in_wheel(facts: PackageFacts) -> str:
    """Return where `_aot` is in the wheel, as `digits/_aot`."""
    parts = (home_of(facts.header) or "").split(".")
    is_name = all(part.isidentifier() for part in parts)
    return "/".join([*parts, FOLDER_NAME]) if is_name else FOLDER_NAME


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
    found = find_owner(place.parents[depth - 1], f"{folder}/{INDEX_NAME}")
    return None if found is None else _stated(found)


def _stated(distribution: metadata.Distribution) -> Distribution | None:
    """Return what METADATA says, or None if it cannot be read or says nothing."""
    try:
        stated = distribution.metadata
        if "Name" in stated and "Version" in stated:
            return Distribution(stated["Name"], stated["Version"])
    except UNREADABLE:
        pass
    return None
