"""The entries of direct mode in the store.

| entry  | its key                         | what it has                                         |
|--------|---------------------------------|-----------------------------------------------------|
| names  | the outer key and a number      | a job's own `ReadSet`, and the key of the shared one |
| shared | its own digest                  | the `ReadSet` that jobs of one process share        |
| result | outer key, names, present state | the job's messages, and where its blobs are         |
| blob   | its own digest                  | bytes that no other entry of the store has          |
| marks  | outer key, names, own marks     | a job's own `Marks`, and the key of the shared ones |

An outer key has several entries of names, because what is read depends on what was read: a module
that is edited may import another one. They are numbered from 0 without a gap. Digests and values
are in no entry, only in keys; marks have some digits. They are kept twice, with the job's own marks
in the key, and without them for what was traced last: a job whose own files are the same is nearer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from aotbuild.spec.canonical import canonical_json, sha256_hex
from aotbuild.store.entry import Entry
from aotbuild.store.keys import blob_key, marks_key, names_key, result_key, shared_key
from aotbuild.store.local import Store
from aotbuild.store.marks import Marks
from aotbuild.store.read_set import ReadSet

BothMarks = tuple[Marks, Marks]
# How many sets of names an outer key may have; one more takes the place of another.
MOST_NAMES = 8
_FACTS = {"entry": "direct"}
# `local` says that an entry means nothing on another machine: it is not pushed.
_LOCAL = {**_FACTS, "local": True}


@dataclass(frozen=True)
class Names:
    """The names of what a job read: its own, and those that it shares, with their digest."""

    own: ReadSet
    shared: ReadSet
    shared_digest: str

    @staticmethod
    def of(own: ReadSet, shared: ReadSet) -> Names:
        """Return the names of two sets."""
        return Names(own, shared, sha256_hex(canonical_json(shared.to_json())))

    @property
    def sets(self) -> tuple[ReadSet, ReadSet]:
        """Both sets."""
        return self.own, self.shared

    @property
    def data(self) -> bytes:
        """What the entry of names has."""
        return canonical_json({"own": self.own.to_json(), "shared": self.shared_digest})

    @property
    def is_local(self) -> bool:
        """Whether they mean something on this machine only."""
        return self.own.is_local or self.shared.is_local


@dataclass(frozen=True)
class Result:
    """A job's messages as JSON, and the store's key of each blob that they name, by SHA-256."""

    messages: list[dict[str, Any]]
    blobs: dict[str, str]


@dataclass
class DirectEntries:
    """Reads and writes the entries of direct mode. Entries that are local go to `local`."""

    store: Store
    local: Store
    _shared: dict[str, ReadSet | None] = field(default_factory=dict)
    _marks: set[str] = field(default_factory=set)

    def names(self, outer: str) -> Iterator[Names]:
        """Yield the sets of names that jobs with this outer key had."""
        for number in range(MOST_NAMES):
            entry = self._get(names_key(outer, number))
            if entry is None:
                return
            found = json.loads(entry.data)
            shared = self._shared_set(found["shared"])
            if shared is not None:
                yield Names(ReadSet.from_json(found["own"]), shared, found["shared"])

    def result(self, outer: str, names: Names, state: str) -> Result | None:
        """Return the result of a job that read this, if it is kept."""
        entry = self._get(result_key(outer, sha256_hex(names.data), state))
        if entry is None:
            return None
        found = json.loads(entry.data)
        return Result(found["messages"], found["blobs"])

    def blob(self, key: str, sha256: str) -> bytes | None:
        """Return the bytes of a blob, if its entry still has them."""
        entry = self._get(key)
        return entry.data if entry and sha256_hex(entry.data) == sha256 else None

    def keep_blob(self, data: bytes, sha256: str) -> str:
        """Keep bytes under their digest, and return their key."""
        key = blob_key(sha256)
        self.store.put(key, Entry({"entry": "blob"}, data))
        return key

    def keep(self, outer: str, names: Names, state: str, result: Result, *, local: bool) -> None:
        """Keep a job's result, and the names of what it read."""
        is_local = local or names.is_local
        store, facts = (self.local, _LOCAL) if is_local else (self.store, _FACTS)
        if self._shared.get(names.shared_digest) is None:
            self._shared[names.shared_digest] = names.shared
            data = canonical_json(names.shared.to_json())
            store.put(shared_key(names.shared_digest), Entry(facts, data))
        content = canonical_json({"messages": result.messages, "blobs": result.blobs})
        key = result_key(outer, sha256_hex(names.data), state)
        store.put(key, Entry(facts, content))
        number = self._number(outer, names)
        if number is not None:
            store.put(names_key(outer, number), Entry(facts, names.data))

    def keep_marks(self, outer: str, names: Names, marks: BothMarks, *, local: bool) -> None:
        """Keep the marks of a job that was traced."""
        is_local = local or names.is_local
        store, facts = (self.local, _LOCAL) if is_local else (self.store, _FACTS)
        own, shared = map(canonical_json, marks)
        key = blob_key(sha256_hex(shared))
        if key not in self._marks:
            self._marks.add(key)
            store.put(key, Entry(facts, shared))
        data = canonical_json({"own": marks[0], "shared": key})
        for chosen in (sha256_hex(own), ""):
            store.put(marks_key(outer, sha256_hex(names.data), chosen), Entry(facts, data))

    def marks(self, outer: str, names: Names, now: BothMarks) -> BothMarks | None:
        """Return the marks of the nearest job that was traced, if they are kept."""
        for own in (sha256_hex(canonical_json(now[0])), ""):
            entry = self._get(marks_key(outer, sha256_hex(names.data), own))
            found = json.loads(entry.data) if entry else None
            shared = self._get(found["shared"]) if found else None
            if found and shared:
                return found["own"], json.loads(shared.data)
        return None

    def _get(self, key: str) -> Entry | None:
        entry = self.store.get(key)
        if entry and entry.facts.get("local"):
            self.store.used.discard(key)
        return entry

    def _number(self, outer: str, names: Names) -> int | None:
        """Return the number for a new entry of names; None if there is one like it."""
        for number in range(MOST_NAMES):
            entry = self._get(names_key(outer, number))
            if entry is None:
                return number
            if entry.data == names.data:
                return None
        return int(sha256_hex(names.data), 16) % MOST_NAMES

    def _shared_set(self, digest: str) -> ReadSet | None:
        if digest not in self._shared:
            entry = self._get(shared_key(digest))
            found = entry and ReadSet.from_json(json.loads(entry.data))
            self._shared[digest] = found or None
        return self._shared[digest]
