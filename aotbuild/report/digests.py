"""Digests: every blob of a package is read and compared, and every damage is kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from aotbuild.errors import DamagedBlob
from aotbuild.report.facts import unique_blobs
from aotbuild.runtime.source import Source, read_blob
from aotbuild.spec.record import Blob, Record


@dataclass(frozen=True)
class Checked:
    """One blob that was read, and what is wrong with it, if anything."""

    blob: Blob
    damage: DamagedBlob | None = None


def check_digests(source: Source, records: Iterable[Record]) -> tuple[Checked, ...]:
    """Return every blob that the records need, read and compared, in the order of their names."""
    blobs = unique_blobs(records)
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
