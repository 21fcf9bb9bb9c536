"""A folder of entries by key, and the store as one process uses it.

A file is written to a temporary one and renamed, so no reader sees half of one. Two builds that
write the same entry write equal files. Nothing that is wrong with the folder stops a build: a
damaged entry is removed and made again, and what cannot be written is not kept. Either is a problem
that people are told of once.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from aotbuild.format.files import open_regular, write_whole
from aotbuild.store.entry import KEY, DamagedEntry, Entry, read_entry, write_entry

_T = TypeVar("_T")
_LOG = logging.getLogger("aotbuild")
# Of the files. Another version has its own folder, so builds of both can share a store.
FORMAT = "v2"


def name_of(key: str) -> str:
    """Return the name of an entry's file below a store; ValueError for what is no key."""
    if not KEY.fullmatch(key):
        msg = f"not the key of an entry: {key[:80]!r}"
        raise ValueError(msg)
    return f"{FORMAT}/{key[:2]}/{key}"


@dataclass(frozen=True)
class Folder:
    """Entries as files, unchecked; `store.entry` reads what is in them."""

    root: Path

    def path(self, key: str) -> Path:
        """Return where the file of an entry is, or would be."""
        return self.root / name_of(key)

    def has(self, key: str) -> bool:
        """Return whether there is a file for this key, as far as this user may see it."""
        return os.path.isfile(self.path(key))  # noqa: PTH113 (Path's raises where it may not look)

    def read(self, key: str) -> bytes | None:
        """Return the file of an entry; None if there is none that can be read."""
        try:
            with open_regular(self.path(key)) as file:
                return file.read()
        except (OSError, MemoryError):
            return None

    def write(self, key: str, raw: bytes) -> None:
        """Write the file of an entry; OSError if the folder cannot be written."""
        path = self.path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, raw)

    def touch(self, key: str) -> None:
        """Say that an entry was used now; `store.prune` removes the least recently used first."""
        with suppress(OSError):  # the folder may be read-only, or of somebody else
            os.utime(self.path(key))

    def remove(self, key: str) -> None:
        """Remove the file of an entry, if it is there and this user may."""
        with suppress(OSError):
            self.path(key).unlink()


# Kinds of problems.
UNKEPT, DAMAGED = "unkept", "damaged"


def _found_nothing(_: str) -> bool:
    return False


@dataclass(frozen=True)
class Store:
    """A folder of entries; without one, nothing is kept and nothing is found.

    `fetch` is asked for a key that the folder lacks, and returns whether the folder has it now.
    `made` and `used` are the keys that were put, and those that were found. `problems` has a text
    for each of `UNKEPT` and `DAMAGED` that has happened.
    """

    root: Path | None
    fetch: Callable[[str], bool] = _found_nothing
    made: set[str] = field(default_factory=set, compare=False)
    used: set[str] = field(default_factory=set, compare=False)
    problems: dict[str, str] = field(default_factory=dict, compare=False)

    def get(self, key: str) -> Entry | None:
        """Return the entry of a key, or None; a damaged one is removed."""
        return self.parsed(key, lambda entry: entry)

    def parsed(self, key: str, parse: Callable[[Entry], _T]) -> _T | None:
        """Return what `parse` makes of the entry of a key, or None.

        An entry whose facts `parse` does not understand counts as damaged.
        """
        if self.root is None:
            return None
        folder = Folder(self.root)
        found = self._read(folder, key, parse)
        if found is None and self.fetch(key):
            found = self._read(folder, key, parse)
        if found is not None:
            folder.touch(key)
            self.used.add(key)
        return found

    def put(self, key: str, entry: Entry) -> None:
        """Keep an entry; where the folder cannot be written, nothing is kept."""
        if self.root is None:
            return
        try:
            Folder(self.root).write(key, write_entry(key, entry))
        except OSError as err:
            self.tell(UNKEPT, f"{self.root}: nothing new is kept: {err.strerror or err}")
        else:
            self.made.add(key)

    def tell(self, kind: str, text: str) -> None:
        """Warn of a problem, unless one of its kind was told before."""
        if kind not in self.problems:
            self.problems[kind] = text
            _LOG.warning("%s", text)

    def _read(self, folder: Folder, key: str, parse: Callable[[Entry], _T]) -> _T | None:
        raw = folder.read(key)
        if raw is None:
            return None
        try:
            return read_entry(raw, key).parsed(parse)
        except DamagedEntry as err:
            folder.remove(key)
            self.tell(DAMAGED, f"{folder.path(key)}: damaged, and made again: {err}")
            return None
