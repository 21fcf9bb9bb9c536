"""One layer of the store: where it is, its files, and what is believed of them."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from typing import Protocol

from aotbuild.store.entry import DamagedEntry, check_entry, is_local
from aotbuild.store.folder import Folder
from aotbuild.store.places import Place
from aotbuild.store.trust import Trust

_LOG = logging.getLogger("aotbuild")


class Files(Protocol):
    """The files of a layer by the keys of their entries, unchecked; OSError if it does not work."""

    def has(self, key: str) -> bool:
        """Return whether there is a file for this key."""

    def read(self, key: str) -> bytes | None:
        """Return the file of an entry; None if there is none."""

    def write(self, key: str, raw: bytes) -> None:
        """Write the file of an entry, whole or not at all."""


@dataclass(eq=False)
class Layer:
    """One layer: where it is, and its files. Safe to use from several threads.

    What is read must be as `trust` says, and mean something on this machine. After one failure the
    layer is `off`: nothing is found in it, and nothing is written. `known` are keys that it has,
    `lacking` are keys that were looked for in vain, or whose entries are not used.
    """

    place: Place
    files: Files
    trust: Trust = field(default_factory=Trust)
    off: bool = False
    refused: bool = False
    known: set[str] = field(default_factory=set)
    lacking: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self, key: str) -> bytes | None:
        """Return the checked file of an entry; None if there is none that can be believed.

        In a folder that may be written, a damaged one is set aside.
        """
        try:
            raw = None if self.off else self.files.read(key)
        except OSError as err:
            self._fail(err)
            return None
        if raw is None and (folder := self._folder):
            folder.remove_no_file(key)
        try:
            found = None if raw is None else self._checked(raw, key)
        except DamagedEntry as err:
            self.refuse(key, str(err))
            return None
        (self.lacking if found is None else self.known).add(key)
        return found

    def write(self, key: str, raw: bytes, *, again: bool = False) -> bool:
        """Write the file of an entry; return whether it was written.

        One that is there stays, unless it was read here and is to be written `again`.
        """
        if again and key in self.known:
            self._forget(key)
        if self.off or not self.place.writable or key in self.known:
            return False
        try:
            if key not in self.lacking and self.files.has(key):
                return False
            self.files.write(key, raw)
        except OSError as err:
            self._fail(err)
            return False
        self.known.add(key)
        return True

    def replace(self, key: str, raw: bytes) -> bool:
        """Write the file of an entry, whatever is there; return whether it was written."""
        self._forget(key)
        return self.write(key, raw)

    @property
    def _folder(self) -> Folder | None:
        """The folder, if it is one that may be written."""
        return self.files if self.place.writable and isinstance(self.files, Folder) else None

    def _checked(self, raw: bytes, key: str) -> bytes | None:
        """Return the file of an entry; None if it is of another machine alone. DamagedEntry."""
        try:
            head = check_entry(raw, key)
        except DamagedEntry:
            if folder := self._folder:
                folder.set_aside(key)
            raise
        if problem := self.trust.problem(head):
            raise DamagedEntry(problem)
        return None if is_local(raw, head) else raw

    def refuse(self, key: str, problem: str) -> None:
        """Say that an entry is not used, and may be replaced; warn once, of maybe thousands."""
        self._forget(key)
        with self._lock:
            had_refused, self.refused = self.refused, True
        if not had_refused:
            _LOG.warning("%s: the entry %s is not used: %s", self.place, key, problem)

    def _forget(self, key: str) -> None:
        self.known.discard(key)
        self.lacking.add(key)

    def _fail(self, error: OSError) -> None:
        with self._lock:
            was_off, self.off = self.off, True
        if not was_off:
            _LOG.warning("%s: left out for the rest of the build: %s", self.place, error)
