"""Digests: every blob of a package is read and compared, and every damage is kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from aotbuild.errors import DamagedBlob
from aotbuild.runtime.source import Source, read_blob
from aotbuild.spec.record import Blob


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
