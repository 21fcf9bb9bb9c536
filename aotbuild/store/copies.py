"""Copying entries between the folder in front and another layer, outside of a build.

In a build no layer may stop anything. Here the first failure of one ends the copying.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field

from aotbuild.store.contents import Item, survey
from aotbuild.store.entry import DamagedEntry, check_entry, is_local
from aotbuild.store.folder import Folder
from aotbuild.store.places import Place
from aotbuild.store.remote import Listed, RemoteFiles, open_remote
from aotbuild.store.room import Room
from aotbuild.store.trust import Trust

# Entries that are copied at a time.
_TRANSFERS = 8


@dataclass
class Copied:
    """The entries that were copied, how many were there before, and why others were not copied."""

    entries: list[Item | Listed] = field(default_factory=list)
    present: int = 0
    failures: dict[str, str] = field(default_factory=dict)


def files_of(place: Place) -> Folder | RemoteFiles:
    """Return the files of a layer; a slow one is waited for."""
    return Folder(place.folder) if place.folder else open_remote(place, patient=True)


def entries_of(files: Folder | RemoteFiles) -> list[Item | Listed]:
    """Return the entries of a layer, by key; OSError if they cannot be listed."""
    if isinstance(files, Folder):
        return list(survey(files.root).entries)
    return [*files.entries()]


def push(
    front: Folder, to: Folder | RemoteFiles, trust: Trust, since: float | None, *, again: bool
) -> Copied:
    """Write entries of the front to a layer, signed if there is a key; OSError.

    Only those that were used after `since`, and that the layer lacks, unless `again`. Entries that
    mean nothing on another machine stay.
    """

    def transfer(key: str) -> bool:
        raw = front.read(key)
        if raw is None or is_local(raw, check_entry(raw, key)):
            return False
        to.write(key, trust.sign(raw, key))
        return True

    there = set() if again else {entry.key for entry in entries_of(to)}
    return _copy(entries_of(front), there, since, transfer)


def pull(front: Folder, source: Folder | RemoteFiles, trust: Trust, since: float | None) -> Copied:
    """Write entries of a layer to the front, if they are whole and trusted; OSError.

    Only those that were written after `since`, as far as that is known, and that the front lacks.
    Entries that mean nothing on another machine stay there.
    """

    def transfer(key: str) -> bool:
        raw = source.read(key)
        if raw is None:
            return False
        head = check_entry(raw, key)
        if problem := trust.problem(head):
            raise DamagedEntry(problem)
        if is_local(raw, head):
            return False
        front.write(key, raw)
        return True

    if isinstance(source, Folder):
        source.root.stat()  # one that is not there is no empty one
    there = {entry.key for entry in entries_of(front)}
    return _copy(entries_of(source), there, since, transfer)


def _copy(
    entries: Iterable[Item | Listed],
    there: set[str],
    since: float | None,
    transfer: Callable[[str], bool],
) -> Copied:
    """Transfer entries that are not there, by key.

    `transfer` returns whether it did, or raises DamagedEntry.
    """
    copied = Copied()
    recent = [e for e in entries if since is None or e.used is None or e.used >= since]
    wanted = [entry for entry in recent if entry.key not in there]
    copied.present = len(recent) - len(wanted)
    threads, room = ThreadPoolExecutor(_TRANSFERS), Room()

    def with_room(entry: Item | Listed) -> bool:
        with room.holding(entry.size):
            return transfer(entry.key)

    try:
        started = {threads.submit(with_room, entry): entry for entry in wanted}
        for done in as_completed(started):
            try:
                if done.result():
                    copied.entries.append(started[done])
            except DamagedEntry as err:
                copied.failures[started[done].key] = str(err)
    finally:  # a failure, or Ctrl-C: do not wait for what has not begun
        threads.shutdown(cancel_futures=True)
    return copied
