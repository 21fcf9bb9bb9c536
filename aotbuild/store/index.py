"""The index of direct mode: which names jobs with one outer key read, the last traced first.

It is the only entry that changes, so that of one layer is not that of another. A build adds its row
to each of them. If two builds write one at the same time, a row of one of them may be lost. The
next build that uses it adds it again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from aotbuild.format.canonical import canonical_json
from aotbuild.store.entry import OTHER_CONTENT, DamagedEntry, Entry, read_entry, write_entry
from aotbuild.store.folder import KEY
from aotbuild.store.layer import Layer
from aotbuild.store.local import Store
from aotbuild.store.trust import Trust

KIND = "direct index"
# Rows of an index, and states of a row: one more takes the place of the oldest.
MOST_ROWS = 16
MOST_MARKS = 4


@dataclass(frozen=True)
class Row:
    """The digests of a job's own names and of those that it shares.

    `marks` has digests of the marks of both, for each state that was traced. A row that is `local`
    means nothing on another machine.
    """

    own: str
    shared: str
    marks: tuple[tuple[str, str], ...] = ()
    local: bool = False

    @property
    def names(self) -> tuple[str, str]:
        """Both digests."""
        return self.own, self.shared

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        found = {"own": self.own, "shared": self.shared, "marks": [list(m) for m in self.marks]}
        return {**found, "local": True} if self.local else found

    @staticmethod
    def from_json(data: Any) -> Row:
        """Read the JSON form; ValueError, KeyError or TypeError if it is none."""
        row = Row(
            data["own"],
            data["shared"],
            tuple((own, shared) for own, shared in data["marks"]),
            data.get("local") is True,
        )
        if not all(KEY.fullmatch(digest) for pair in (row.names, *row.marks) for digest in pair):
            msg = "expected digests"
            raise ValueError(msg)
        return row


@dataclass(frozen=True)
class Index:
    """Rows with different names."""

    rows: tuple[Row, ...] = ()

    @staticmethod
    def of(entry: Entry | None) -> Index:
        """Return the index in an entry; an empty one if there is none."""
        try:
            rows = tuple(map(Row.from_json, json.loads(entry.data))) if entry else ()
        except OTHER_CONTENT:
            rows = ()
        return Index(rows)

    @staticmethod
    def in_file(raw: bytes | None, key: str) -> Index:
        """Return the index in the file of an entry; an empty one if there is none."""
        try:
            return Index.of(read_entry(raw, key)) if raw else Index()
        except DamagedEntry:
            return Index()

    def to_entry(self) -> Entry:
        """Return the entry with this index."""
        return Entry({"entry": KIND}, canonical_json([row.to_json() for row in self.rows]))

    def to_file(self, key: str) -> bytes:
        """Return the file of the entry with this index, unsigned."""
        return write_entry(key, self.to_entry())

    @property
    def portable(self) -> Index:
        """The rows that mean something on other machines."""
        return Index(tuple(row for row in self.rows if not row.local))

    def has(self, row: Row) -> bool:
        """Return whether a row is there, with all its marks."""
        found = self._row(row)
        return found is not None and {*row.marks} <= {*found.marks}

    def with_row(self, row: Row) -> Index:
        """Return this index with a row in front."""
        found = self._row(row)
        if found:
            row = replace(
                row, marks=_first(row.marks, found.marks), local=row.local and found.local
            )
        others = (each for each in self.rows if each.names != row.names)
        return Index((row, *others)[:MOST_ROWS])

    def joined(self, other: Index) -> Index:
        """Return this index, and behind it what another has more."""
        rows = list(self.rows)
        for row in other.rows:
            found = self._row(row)
            if found is None:
                rows.append(row)
            else:
                marks = _first(found.marks, row.marks)
                rows[rows.index(found)] = replace(found, marks=marks)
        return Index(tuple(rows[:MOST_ROWS]))

    def _row(self, like: Row) -> Row | None:
        return next((row for row in self.rows if row.names == like.names), None)


def _first(*marks: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple(dict.fromkeys(pair for each in marks for pair in each))[:MOST_MARKS]


@dataclass(eq=False)
class Indexes:
    """The indexes in the layers of one build. Safe to use from several threads.

    `store` is the folder in front, for entries that do not count. `rows` were used or made, by the
    keys of their indexes. When the build is done, they go to the layers behind unless they are
    local.
    """

    store: Store
    behind: Sequence[Layer]
    trust: Trust
    rows: dict[str, Row] = field(default_factory=dict)
    _seen: dict[tuple[Layer, str], Index] = field(default_factory=dict)

    def near(self, key: str) -> Index:
        """Return the index of the folder in front."""
        return Index.of(self.store.get(key))

    def far(self, key: str) -> Iterator[Index]:
        """Yield the indexes of the other layers; each is read when it is asked for."""
        for layer in self.behind:
            found = self._seen[layer, key] = Index.in_file(layer.read(key), key).portable
            yield found

    def use(self, key: str, row: Row) -> None:
        """Note that a row of the index in front was used."""
        self.rows[key] = replace(row, marks=())

    def add(self, key: str, row: Row) -> None:
        """Add a row to the index in front."""
        index = self.near(key)
        if not index.has(row):
            self.store.put(key, index.with_row(row).to_entry())
        self.rows[key] = row

    def push(self, key: str, layers: Iterable[Layer]) -> None:
        """Add the row for an index to those of other layers."""
        row = self.rows[key]
        for layer in layers if not row.local else ():
            seen = self._seen.get((layer, key))
            if seen and seen.has(row):
                continue
            index = Index.in_file(layer.read(key), key).portable
            if not index.has(row):
                layer.replace(key, self.trust.sign(index.with_row(row).to_file(key), key))
