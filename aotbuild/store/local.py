"""The store as a process uses it: a folder, and what to ask for an entry that it lacks.

Nothing that is wrong with the folder stops a build: a damaged entry is removed and made again, and
what cannot be written is not kept. Either is a problem that people are told of once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from aotbuild.store.entry import DamagedEntry, Entry, read_entry, write_entry
from aotbuild.store.folder import Folder

# Kinds of problems.
UNKEPT, DAMAGED = "unkept", "damaged"
_T = TypeVar("_T")
_LOG = logging.getLogger("aotbuild")


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
