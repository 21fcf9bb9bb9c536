"""The result of a whole build in the store, under the key of all that it was made from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from aotbuild.format.canonical import mapping, sha256_hex, text, texts, whole
from aotbuild.format.files import write_whole
from aotbuild.format.index import INDEX_NAME, Index
from aotbuild.format.layout import BLOBS
from aotbuild.format.record import Record
from aotbuild.store.entry import KEY, Entry
from aotbuild.store.keys import blob_key
from aotbuild.store.local import Store

# The name of a blob's file: its digest and its kind.
_BLOB = re.compile(r"([0-9a-f]{64})\.([A-Za-z0-9]+)")


@dataclass(frozen=True)
class KeptBuild:
    """The index of a finished package, and where the store has its blobs.

    `blobs` has the store's key of each blob by the name of its file. `order` has the place of each
    unit's record among those of the index, in the plan's order. `notes` are those of the package.
    """

    index: bytes
    blobs: Mapping[str, str]
    order: Sequence[int]
    notes: tuple[str, ...]

    def to_entry(self) -> Entry:
        """Return the entry of the store."""
        facts = {
            "entry": "build",
            "blobs": dict(self.blobs),
            "order": list(self.order),
            "notes": list(self.notes),
        }
        return Entry(facts, self.index)

    @classmethod
    def from_entry(cls, entry: Entry) -> KeptBuild:
        """Read such an entry; ValueError, TypeError or KeyError for anything else.

        Names and keys become paths, so nothing but what this writes is taken.
        """
        facts = entry.facts
        blobs = {text(name): text(key) for name, key in mapping(facts["blobs"]).items()}
        for name, key in blobs.items():
            if not _BLOB.fullmatch(name) or not KEY.fullmatch(key):
                msg = f"expected a blob and its key, found {name!r} and {key!r}"
                raise ValueError(msg)
        order = tuple(map(whole, facts["order"]))
        found = cls(entry.data, blobs, order, texts(facts["notes"]))
        found.records()
        return found

    def records(self) -> list[Record]:
        """Return the record of each unit, in the plan's order."""
        records = records_of(Index.open(self.index, "the store"))
        return [records[place] for place in self.order]


def records_of(index: Index) -> list[Record]:
    """Return all records of an index, in its order."""
    return [record for f in index.functions() for record in index.records(f.name)]


def recall(store: Store, key: str, staging: Path) -> KeptBuild | None:
    """Write the package that was kept under a key into `staging`; None if the store lacks a part.

    `staging` is an `_aot` folder with an empty folder for blobs.
    """
    kept = store.parsed(key, KeptBuild.from_entry)
    if kept is None:
        return None
    for name, blob in kept.blobs.items():
        entry = store.get(blob)
        if entry is None or sha256_hex(entry.data) != name.partition(".")[0]:
            return None
        write_whole(staging / BLOBS / name, entry.data)
    write_whole(staging / INDEX_NAME, kept.index)
    return kept


def keep(
    store: Store,
    key: str,
    folder: Path,
    records: Iterable[Record],
    stored: Mapping[str, str],
    notes: tuple[str, ...],
) -> None:
    """Keep a finished package; `stored` has the store's keys of blobs by their SHA-256.

    Executables that the store may not keep, as XLA measured while it compiled them, keep a build
    from being kept, too.
    """
    index = (folder / INDEX_NAME).read_bytes()
    places = {record: number for number, record in enumerate(map(_identity, _read(index)))}
    blobs: dict[str, str] = {}
    for file in sorted((folder / BLOBS).iterdir()):
        sha256, _, kind = file.name.partition(".")
        blobs[file.name] = stored.get(sha256, "")
        if blobs[file.name]:
            continue
        if kind == "pjrt":
            return
        blobs[file.name] = blob_key(sha256)
        store.put(blobs[file.name], Entry({"entry": "blob"}, file.read_bytes()))
    order = [places[_identity(record)] for record in records]
    store.put(key, KeptBuild(index, blobs, order, notes).to_entry())


def _read(index: bytes) -> list[Record]:
    return records_of(Index.open(index, INDEX_NAME))


def _identity(record: Record) -> tuple[str, ...]:
    jaxlib = str(record.requires.jaxlib)
    return record.function, record.signature.key(), str(record.target), jaxlib
