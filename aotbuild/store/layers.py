"""The store in layers: a folder in front that the build works with, and others behind it.

An entry that the front lacks is looked for in the layers behind, from the nearest on, checked, and
written to the folders before the one that had it. What a build made and used is written to the
others when it is done. No layer can make a build fail: one that does not work is left out for the
rest of the build, with one warning.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import TracebackType

from aotbuild.format.temporary import remove_abandoned, temporary_folder
from aotbuild.store.entry import DamagedEntry, check_entry, is_local
from aotbuild.store.folder import Folder
from aotbuild.store.layer import Files, Layer
from aotbuild.store.local import UNKEPT, Store
from aotbuild.store.owners import check_owners
from aotbuild.store.places import Place, places
from aotbuild.store.remote import open_remote
from aotbuild.store.room import Room
from aotbuild.store.trust import Trust, read_trust

# Entries that are written to other layers at a time.
_TRANSFERS = 8
_LOG = logging.getLogger("aotbuild")


@dataclass(frozen=True)
class Counts:
    """Entries of one build: found at once or fetched, fetched from behind, made, and pushed."""

    used: int = 0
    fetched: int = 0
    made: int = 0
    pushed: int = 0


@dataclass(eq=False)
class Layers:
    """The layers of one build, the nearest first. Safe to use from several threads.

    `front` is the first folder that may be written, or a temporary one; None if there is no store.
    `store` is that folder as the build's own process uses it. It also has the keys of what was made
    and used; those of workers are added to them. What is pushed is signed as `trust` says.
    `uncounted` are keys that are pushed with them, and do not count.
    """

    layers: tuple[Layer, ...]
    front: Path | None
    trust: Trust = field(default_factory=Trust)
    uncounted: set[str] = field(default_factory=set)
    _cleanup: ExitStack = field(default_factory=ExitStack)
    _room: Room = field(default_factory=Room)
    _fetched: set[str] = field(default_factory=set)
    _pushed: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.store = Store(self.front, self.fetch)
        self.behind = tuple(layer for layer in self.layers if layer.place.folder != self.front)

    def __enter__(self) -> Layers:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove a temporary front."""
        self._cleanup.close()

    @property
    def counts(self) -> Counts:
        """How many entries were used and made so far, each counted once."""
        used, made = self.store.used - self.store.made, self.store.made
        return Counts(len(used), len(self._fetched), len(made), len(self._pushed - self.uncounted))

    def fetch(self, key: str) -> bool:
        """Return whether the front has an entry, after looking for it in the layers behind."""
        if self.front is None:
            return False
        if Folder(self.front).has(key):
            return True  # another job has fetched it meanwhile
        for layer in self.behind:
            raw = layer.read(key)
            if raw is not None:
                return self._fill(layer, key, raw)
        return False

    def push(self, keys: Iterable[str] | None = None) -> None:
        """Write entries of the front to every other layer that lacks them and may be written.

        By default all that were made and used.
        """
        if keys is None:
            keys = self.store.made | self.store.used | self.uncounted
        layers = [layer for layer in self.behind if layer.place.writable and not layer.off]
        if self.front is None or not layers:
            return
        if obstacle := self.trust.obstacle:
            _LOG.warning("nothing is pushed to %s: %s", layers[0].place, obstacle)
            return
        _for_each(sorted(set(keys)), partial(self._push, layers=layers))

    def _push(self, key: str, layers: Sequence[Layer]) -> None:
        assert self.front is not None
        front = Folder(self.front)
        with self._room.holding(front.size(key)):
            raw = front.read(key)
            if raw is not None:
                self._push_raw(key, raw, layers)

    def _push_raw(self, key: str, raw: bytes, layers: Sequence[Layer]) -> None:
        try:
            if is_local(raw, check_entry(raw, key)):
                return
            raw = self.trust.sign(raw, key)
        except DamagedEntry:
            return
        # What was fetched and made all the same was of no use.
        again = key in self._fetched and key in self.store.made
        for layer in layers:
            if layer.write(key, raw, again=again):
                self._pushed.add(key)

    def _fill(self, source: Layer, key: str, raw: bytes) -> bool:
        """Write an entry to all folders before its source; return whether the front has it."""
        assert self.front is not None
        for layer in self.layers[: self.layers.index(source)]:
            if layer.place.folder and layer.place.folder != self.front:
                layer.write(key, raw)
        try:
            Folder(self.front).write(key, raw)
        except OSError as err:
            self.store.tell(UNKEPT, f"{self.front}: nothing new is kept: {err.strerror or err}")
            return False
        self._fetched.add(key)
        return True


def _for_each(keys: Sequence[str], call: Callable[[str], None]) -> None:
    threads = ThreadPoolExecutor(_TRANSFERS)
    try:
        for done in [threads.submit(call, key) for key in keys]:
            done.result()
    finally:  # Ctrl-C too: do not wait for what has not begun
        threads.shutdown(cancel_futures=True)


def open_store(environment: Mapping[str, str]) -> Layers:
    """Return the layers that AOTBUILD_STORE names, and whose signatures they need. Close them.

    Raises PlanError if a variable is malformed, or names keys that cannot be used, or if others may
    write to a folder and AOTBUILD_STORE_STRICT refuses it.
    """
    named = _checked(places(environment))
    folders = (place.folder for place in named if place.writable)
    front = next(filter(None, folders), None)
    # The folder in front needs no keys.
    trust = read_trust(environment) if len(named) > 1 or (named and not front) else Trust()
    layers = tuple(
        Layer(place, _files(place), Trust() if front and place.folder == front else trust)
        for place in named
    )
    for layer in layers:
        if folder := layer.place.folder:
            if not layer.trust.keys:
                check_owners(folder, environment)
            if layer.place.writable:
                remove_abandoned(folder)
                Folder(folder).remove_old_damage()
    if front is not None or not layers:
        return Layers(layers, front, trust)
    cleanup = ExitStack()
    return Layers(
        layers, cleanup.enter_context(temporary_folder(what="store-")), trust, _cleanup=cleanup
    )


def _checked(named: tuple[Place, ...]) -> tuple[Place, ...]:
    """Return the layers with folders that cannot be written as read-only.

    A single one stays: what it has is found, and what is made is tried to be kept.
    """
    if len(named) == 1:
        return named
    found = []
    for place in named:
        if place.folder and place.writable and not _may_be_written(place.folder):
            _LOG.warning("%s: this folder cannot be written; nothing new is kept in it", place)
            found.append(replace(place, writable=False))
        else:
            found.append(place)
    return tuple(found)


def _may_be_written(folder: Path) -> bool:
    there = next((f for f in (folder, *folder.parents) if os.path.lexists(f)), folder)
    return os.access(f"{there}/", os.W_OK | os.X_OK)  # with a slash, a file is refused


def _files(place: Place) -> Files:
    return Folder(place.folder) if place.folder else open_remote(place)
