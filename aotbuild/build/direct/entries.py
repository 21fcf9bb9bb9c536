"""The entries of direct mode in the store.

| entry  | its key                           | what it has                               |
|--------|-----------------------------------|-------------------------------------------|
| index  | the outer key                     | a `Row` for each set of names             |
| names  | its own digest                    | a `ReadSet`: a job's own, or a shared one |
| result | outer key, names, present state   | the job's messages, and where its blobs are |
| blob   | its own digest                    | bytes that no other entry of the store has |
| marks  | its own digest                    | the `Marks` of one set of names           |

An outer key has several sets of names, because what is read depends on what was read: a module that
is edited may import another one. All entries but the index never change. Digests and values are in
no entry, only in keys; marks have some digits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from aotbuild.format.canonical import canonical_json, sha256_hex
from aotbuild.store.entry import OTHER_CONTENT, Entry
from aotbuild.store.index import Row
from aotbuild.store.keys import blob_key, index_key, marks_key, names_key, result_key
from aotbuild.store.layers import Layers
from aotbuild.store.local import Store
from aotbuild.store.marks import Marks
from aotbuild.store.read_set import ReadSet

BothMarks = tuple[Marks, Marks]
_NAMES, _RESULT, _MARKS = "direct names", "direct result", "direct marks"


@dataclass(frozen=True)
class Names:
    """The names of what a job read: its own, and those that it shares; and the digests of both."""

    own: ReadSet
    shared: ReadSet
    own_digest: str
    shared_digest: str

    @staticmethod
    def of(own: ReadSet, shared: ReadSet) -> Names:
        """Return the names of two sets."""
        return Names(own, shared, _digest(own.to_json()), _digest(shared.to_json()))

    @property
    def sets(self) -> tuple[ReadSet, ReadSet]:
        """Both sets."""
        return self.own, self.shared

    @property
    def digests(self) -> tuple[str, str]:
        """The digests of both sets."""
        return self.own_digest, self.shared_digest

    @property
    def is_local(self) -> bool:
        """Whether they mean something on this machine only."""
        return self.own.is_local or self.shared.is_local


@dataclass(frozen=True)
class Result:
    """A job's messages as JSON, and the store's key of each blob that they name, by SHA-256."""

    messages: list[dict[str, Any]]
    blobs: dict[str, str]


@dataclass(frozen=True)
class Candidate:
    """Names that a job may read again, the row that has them, and the store to look into.

    `is_far` says that the row is from another layer than the folder in front.
    """

    names: Names
    row: Row
    store: Store
    is_far: bool


class DirectEntries:
    """Reads and writes the entries of direct mode. Safe to use from several threads."""

    def __init__(self, layers: Layers) -> None:
        store = layers.store
        self._indexes, self.store = layers.indexes, store
        # The folder in front alone; what is found there counts as used all the same.
        self._near = replace(store, fetch=lambda _: False)
        self._sets: dict[str, ReadSet] = {}
        self._kept_marks: set[str] = set()

    def candidates(self, outer: str) -> Iterator[Candidate]:
        """Yield the names that jobs with this outer key read, the last traced first.

        Those that the folder in front knows cost no request of another layer.
        """
        key = index_key(outer)
        yield from self._candidates(self._indexes.near(key).rows, self._near, is_far=False)
        for index in self._indexes.far(key):
            yield from self._candidates(index.rows, self.store, is_far=True)

    def _candidates(
        self, rows: tuple[Row, ...], store: Store, *, is_far: bool
    ) -> Iterator[Candidate]:
        for row in rows:
            # Both, so that a damaged one is seen.
            own, shared = (self._set(digest, store) for digest in row.names)
            if own is not None and shared is not None:
                yield Candidate(Names(own, shared, *row.names), row, store, is_far)

    def result(self, outer: str, candidate: Candidate, state: str) -> Result | None:
        """Return the result of a job that read this, if it is kept."""
        entry = candidate.store.get(result_key(outer, candidate.row.names, state))
        if entry is None:
            return None
        found = json.loads(entry.data)
        return Result(found["messages"], found["blobs"])

    def use(self, outer: str, candidate: Candidate) -> None:
        """Note that a candidate's result was used."""
        key, row = index_key(outer), candidate.row
        if candidate.is_far:
            self._indexes.add(key, Row(*row.names))
        else:
            self._indexes.use(key, row)

    def blob(self, key: str, sha256: str) -> bytes | None:
        """Return the bytes of a blob, if its entry still has them."""
        entry = self.store.get(key)
        return entry.data if entry and sha256_hex(entry.data) == sha256 else None

    def keep_blob(self, data: bytes, sha256: str) -> str:
        """Keep bytes under their digest, and return their key."""
        key = blob_key(sha256)
        self.store.put(key, Entry({"entry": "blob"}, data))
        return key

    def keep(
        self,
        outer: str,
        names: Names,
        state: str,
        result: Result,
        marks: BothMarks | None,
        *,
        local: bool,
    ) -> None:
        """Keep a job's result, the names of what it read, and their marks."""
        for digest, each in zip(names.digests, names.sets, strict=True):
            if digest not in self._sets:
                self._put(names_key(digest), _NAMES, each.to_json(), local=each.is_local)
                self._sets[digest] = each
        local = local or names.is_local
        content = {"messages": result.messages, "blobs": result.blobs}
        self._put(result_key(outer, names.digests, state), _RESULT, content, local=local)
        kept: tuple[tuple[str, str], ...] = ()
        if marks:
            own, shared = map(self._keep_marks, marks, (each.is_local for each in names.sets))
            kept = ((own, shared),)
        # At last, as it leads to the others.
        self._indexes.add(index_key(outer), Row(*names.digests, kept, local))

    def marks(self, candidate: Candidate, now: BothMarks) -> BothMarks | None:
        """Return the marks of the nearest state with these names, if they are kept.

        That is one in which the job's own files were as they are now, or else the last one.
        """
        states, own_now = candidate.row.marks, _digest(now[0])
        if not states:
            return None
        nearest = next((pair for pair in states if pair[0] == own_now), states[0])
        own, shared = map(self._marks_of, nearest)
        return None if own is None or shared is None else (own, shared)

    def _marks_of(self, digest: str) -> Marks | None:
        entry = self.store.get(marks_key(digest))
        return json.loads(entry.data) if entry else None

    def _keep_marks(self, marks: Marks, local: bool) -> str:
        digest = _digest(marks)
        if digest not in self._kept_marks:
            self._kept_marks.add(digest)
            self._put(marks_key(digest), _MARKS, marks, local=local)
        return digest

    def _put(self, key: str, kind: str, content: Mapping[str, Any], *, local: bool) -> None:
        facts = {"entry": kind, "local": True} if local else {"entry": kind}
        self.store.put(key, Entry(facts, canonical_json(content)))

    def _set(self, digest: str, store: Store) -> ReadSet | None:
        if digest not in self._sets:
            entry = store.get(names_key(digest))
            if entry is None or sha256_hex(entry.data) != digest:
                return None
            try:
                self._sets[digest] = ReadSet.from_json(json.loads(entry.data))
            except OTHER_CONTENT:
                return None
        return self._sets[digest]


def _digest(content: Mapping[str, Any]) -> str:
    return sha256_hex(canonical_json(content))
