"""Which layers of the store a command is about, and how it names entries, sizes and times."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from aotbuild.cli.command import UsageError
from aotbuild.report.words import bytes_text
from aotbuild.store.contents import Item
from aotbuild.store.folder import Folder
from aotbuild.store.places import VARIABLE, Place, parse_place, places
from aotbuild.store.remote import LayerFailed, Listed


def place_of(layer: str | None) -> Place:
    """Return the layer that was named, or the first folder of AOTBUILD_STORE."""
    return front_place() if layer is None else _named(layer)


def _named(layer: str) -> Place:
    """Return a layer of the command line; a folder must be there, or a typo would be empty."""
    try:
        place = parse_place(layer, os.environ, relative=True)
        if place.folder:
            place.folder.stat()
    except ValueError as err:
        raise UsageError(str(err), "LAYER") from err
    except OSError as err:
        msg = f"{place}: {err.strerror}; expected a folder that is there"
        raise UsageError(msg, "LAYER") from err
    return place


def front_place() -> Place:
    """Return the first folder of AOTBUILD_STORE that may be written, else the first one."""
    named = places(os.environ)
    folders = [place for place in named if place.folder]
    if not folders:
        found = "only URLs" if named else "off"
        msg = f"{VARIABLE} names no folder: it is {found}"
        raise UsageError(msg)
    return next((place for place in folders if place.writable), folders[0])


def folder_of(place: Place) -> Folder:
    """Return the folder of a layer that must have one."""
    if place.folder is None:
        msg = f"expected a folder, found {place}: give a bucket a rule that deletes objects by age"
        raise UsageError(msg, "LAYER")
    return Folder(place.folder)


def behind(layer: str | None) -> list[Place]:
    """Return the layer that was named, or all of AOTBUILD_STORE but its first folder."""
    if layer is not None:
        return [_named(layer)]
    first = front_place()
    found = [place for place in places(os.environ) if place.folder != first.folder]
    if not found:
        msg = f"{VARIABLE} names no other layer: name one"
        raise UsageError(msg, "LAYER")
    return found


@contextmanager
def named_in_errors(place: Place) -> Iterator[None]:
    """Name a remote layer in its errors."""
    try:
        yield
    except LayerFailed as err:
        msg = f"{place}: {err}"
        raise LayerFailed(msg) from err


def entry_document(entry: Item | Listed) -> dict[str, Any]:
    """Return an entry as JSON."""
    return {"key": entry.key, "size": entry.size, "used": utc(entry.used)}


def utc(seconds: float | None) -> str | None:
    """Return a time as text; files may have times that no calendar has."""
    if seconds is None:
        return None
    try:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
    except (OverflowError, ValueError, OSError):
        return f"{seconds:g} s"


def size_of(items: Iterable[Item | Listed]) -> int:
    """Return the size of files in bytes."""
    return sum(item.size for item in items)


def entries_text(items: Collection[Item | Listed], nouns: str = "entries") -> str:
    """Return how many there are and how large they are, as `2 entries (1.5 MB)`."""
    one = {"entries": "entry", "leftovers": "leftover"}
    noun = one[nouns] if len(items) == 1 else nouns
    return f"{len(items)} {noun} ({bytes_text(size_of(items))})"
