"""The store of one build: the folder that it works with, and what is behind it.

An entry that the folder lacks is looked for behind it, checked, and written to the folder. What a
build made and used is written back when it is done. Nothing behind the folder can make a build
fail: after one error it is left alone for the rest of the build, with one warning.
"""

from __future__ import annotations

import logging
import os
import stat
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from aotbuild.store.entry import DamagedEntry, check_entry
from aotbuild.store.folder import UNKEPT, Folder, Store
from aotbuild.store.place import VARIABLE, store_place
from aotbuild.store.remote import Remote, open_remote

# Entries that are written back at a time; each is in memory as a whole.
_TRANSFERS = 4
_LOG = logging.getLogger("aotbuild")


@dataclass(frozen=True)
class Counts:
    """Entries of one build: found in the folder or fetched, fetched, made, and written back."""

    used: int = 0
    fetched: int = 0
    made: int = 0
    pushed: int = 0


@dataclass(eq=False)
class BuildStore:
    """The store of one build. Safe to use from several threads.

    `front` is the folder; None if there is no store. `store` is that folder as the build's own
    process uses it. It also has the keys of what was made and used; those of workers are added to
    them.
    """

    front: Path | None = None
    behind: Folder | Remote | None = None
    _fetched: set[str] = field(default_factory=set)
    _pushed: set[str] = field(default_factory=set)
    _damaged: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.store = Store(self.front, self.fetch)

    @property
    def counts(self) -> Counts:
        """How many entries were used and made so far, each counted once."""
        used, made = self.store.used - self.store.made, self.store.made
        return Counts(len(used), len(self._fetched), len(made), len(self._pushed))

    def fetch(self, key: str) -> bool:
        """Return whether the folder has an entry, after looking for it behind the folder."""
        if self.front is None:
            return False
        folder = Folder(self.front)
        if folder.has(key):
            return True  # another job has fetched it meanwhile
        behind = self.behind
        if behind is None:
            return False
        try:
            raw = behind.read(key)
            if raw is None:
                return False
            check_entry(raw, key)
        except DamagedEntry as err:
            self._damaged.add(key)
            _LOG.warning("%s: the entry %s is damaged, and made again: %s", behind, key, err)
            return False
        except OSError as err:
            self._leave_alone(err)
            return False
        try:
            folder.write(key, raw)
        except OSError as err:
            self.store.tell(UNKEPT, f"{self.front}: nothing new is kept: {err.strerror or err}")
            return False
        self._fetched.add(key)
        return True

    def push(self) -> None:
        """Write all that was made and used back to what is behind the folder, as far as it lacks.

        What was fetched and made all the same was of no use, and is replaced.
        """
        is_useless = self._fetched & self.store.made
        keys = self.store.made | self.store.used
        with ThreadPoolExecutor(_TRANSFERS) as threads:
            list(threads.map(self._push, sorted(keys - (self._fetched - is_useless))))

    def _push(self, key: str) -> None:
        behind = self.behind
        if behind is None or self.front is None:
            return
        if isinstance(behind, Remote) and not behind.may_be_written:
            return
        raw = Folder(self.front).read(key)
        try:
            if raw is None:
                return
            check_entry(raw, key)
            if key in self._damaged | self._fetched or not behind.has(key):
                behind.write(key, raw)
                self._pushed.add(key)
        except DamagedEntry:
            return
        except OSError as err:
            self._leave_alone(err)

    def _leave_alone(self, error: OSError) -> None:
        with self._lock:
            behind, self.behind = self.behind, None
        if behind is not None:
            _LOG.warning("%s: left out for the rest of the build: %s", behind, error)


def open_store(environment: Mapping[str, str]) -> BuildStore:
    """Return the store that AOTBUILD_STORE names; PlanError if that is malformed.

    A warning says if other users may write to its folder: what they put there would run here.
    """
    place = store_place(environment)
    if place.folder is not None:
        _warn_of_others(place.folder)
    if isinstance(place.behind, Path):
        return BuildStore(place.folder, Folder(place.behind))
    return BuildStore(place.folder, open_remote(place.behind) if place.behind else None)


@cache
def _warn_of_others(folder: Path) -> None:
    """Warn once if other users may write to a folder, by its owner and mode.

    A group that may write was given the folder by somebody; access lists are not read.
    """
    with suppress(OSError):  # it is not there yet
        found = folder.stat()
        problem = ""
        if found.st_uid not in (os.geteuid(), 0):
            problem = f"it belongs to user {found.st_uid}"
        elif found.st_mode & stat.S_IWOTH:
            problem = f"everybody may write to it (mode {stat.S_IMODE(found.st_mode):o})"
        if problem:
            _LOG.warning(
                "%s: %s, and what others put there would run here; choose another with %s",
                folder,
                problem,
                VARIABLE,
            )
