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
from aotbuild.runtime.blobs import read_blob
from aotbuild.runtime.distribution import UNREADABLE, find_owner
from aotbuild.runtime.source import Source
from aotbuild.spec.index import FOLDER_NAME, INDEX_NAME
from aotbuild.spec.layout import home_of
from aotbuild.spec.record import Blob, Record

# Entries of the provenance that differ for each executable. The measurements of `startup: tuned`
# have a table of their own.
_OF_ONE_UNIT = frozenset(
    {"stablehlo", "floats", "golden", "shrink.check", "shrink.note", "startup.measured"}
)


def distinct(values: Iterable[Any]) -> Sequence[Any]:
    """Return the distinct JSON values, in order of first appearance."""
    return list({shown(value): value for value in values}.values())


def settings(record: Record) -> Iterator[tuple[str, Any]]:
    """Yield the settings of the whole build, without those of a single executable."""
    yield from (item for item in provenance_items(record) if item[0] not in _OF_ONE_UNIT)


def provenance_items(record: Record) -> Iterator[tuple[str, Any]]:
    """Yield the inputs and settings of an executable by name, such as `config.jax_enable_x64`."""
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
    """Return the distribution whose RECORD lists this index; None if there is none.

    A wheel has its own, an installed package the one beside it; a folder that `aotbuild build`
    wrote has none.
    """
    folder = folder_in_wheel(facts)
    depth = folder.count("/") + 1
    place = Path(facts.place).absolute()
    if depth == 1 or "/".join(place.parts[-depth:]) != folder:
        return None
    found = find_owner(place.parents[depth - 1], f"{folder}/{INDEX_NAME}")
    return None if found is None else _stated(found)


def _stated(distribution: metadata.Distribution) -> Distribution | None:
    """Return the name and version in METADATA, or None if they cannot be read."""
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
    """Read every blob of a package and compare its digest; return the results in order of path."""
    return tuple(_check(source, blobs[path]) for path in sorted(blobs))


def damages(checked: Iterable[Checked]) -> list[DamagedBlob]:
    """Return the blobs that are damaged."""
    return [item.damage for item in checked if item.damage is not None]


def _check(source: Source, blob: Blob) -> Checked:
    try:
        read_blob(source, blob)
    except DamagedBlob as err:
        return Checked(blob, err)
    return Checked(blob)
