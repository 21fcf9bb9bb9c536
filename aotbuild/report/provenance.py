"""Where a package comes from: its distribution, what it was made with, and its digests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from aotbuild.errors import DamagedBlob
from aotbuild.report.facts import PackageFacts
from aotbuild.report.words import shown
from aotbuild.runtime.locate import UNREADABLE, find_owner
from aotbuild.runtime.source import Source, read_blob
from aotbuild.spec.index import FOLDER_NAME, INDEX_NAME
from aotbuild.spec.parts import home_of
from aotbuild.spec.record import Blob, Record

# Of the provenance, what differs from executable to executable by its nature. What `startup: tuned`
# measured has a table of its own.
_OF_ONE_UNIT = frozenset({"stablehlo", "floats", "golden", "startup.measured"})


def distinct(values: Iterable[Any]) -> Sequence[Any]:
    """Return different JSON values in the order of their first appearance."""
    return list({shown(value): value for value in values}.values())


def settings(record: Record) -> Iterator[tuple[str, Any]]:
    """Yield what was set for the whole build, without what is of one executable alone."""
    yield from (item for item in provenance_items(record) if item[0] not in _OF_ONE_UNIT)


def provenance_items(record: Record) -> Iterator[tuple[str, Any]]:
    """Yield what an executable was made from and with, as `config.jax_enable_x64`."""
    for name, value in sorted(record.provenance.items()):
        if name in ("label", "symbolic_leaves"):
            continue
        if isinstance(value, dict):
            yield from ((f"{name}.{inner}", item) for inner, item in sorted(value.items()))
        else:
            yield name, value


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


@dataclass(frozen=True)
class Checked:
    """One blob that was read, and what is wrong with it, if anything."""

    blob: Blob
    damage: DamagedBlob | None = None


def check_digests(source: Source, blobs: Mapping[str, Blob]) -> tuple[Checked, ...]:
    """Return every blob of a package, by path, read and compared, in the order of their names."""
    return tuple(_check(source, blobs[path]) for path in sorted(blobs))


def damages(checked: Iterable[Checked]) -> list[DamagedBlob]:
    """Return what is wrong."""
    return [item.damage for item in checked if item.damage is not None]


def _check(source: Source, blob: Blob) -> Checked:
    try:
        read_blob(source, blob)
    except DamagedBlob as err:
        return Checked(blob, err)
    return Checked(blob)
