"""A folder of entries by key.

A file is written to a temporary one and renamed, so no reader sees half of one. Two builds that
write the same entry write equal files.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from aotbuild.format.files import open_regular, write_whole
from aotbuild.store.entry import KEY

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
