"""A folder of entries by key: a layer of the store on a disk of this machine.

A file is written to a temporary one, synced and renamed, so no reader sees half of one. Two builds
that write the same entry write equal files.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

from aotbuild.format.files import make_folders, open_regular, write_whole
from aotbuild.format.temporary import temporary_folder
from aotbuild.format.values import cut
from aotbuild.store.entry import DamagedEntry, read_head

# Of the files. Another version has its own folder, so builds of both can share a store.
FORMAT = "v2"
# The names of entries' files.
KEY = re.compile(r"[0-9a-f]{64}")
# As the files of damaged entries are renamed, and how long they stay for people to look at.
DAMAGED = re.compile(r"[0-9a-f]{64}\.damaged")
_STAYS = 30 * 24 * 3600.0  # seconds
# No head of an entry is larger, in bytes.
_HEAD = 1 << 14


def name_of(key: str) -> str:
    """Return the name of an entry's file below a layer; ValueError for what is no key."""
    if not KEY.fullmatch(key):
        msg = f"not the key of an entry: {cut(repr(key), 80)}"
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

    def size(self, key: str) -> int:
        """Return the bytes of an entry's file; 0 if there is none."""
        try:
            return self.path(key).stat().st_size
        except OSError:
            return 0

    def read(self, key: str) -> bytes | None:
        """Return the file of an entry; None if there is none that can be read.

        Of a file that is larger than its head says, no more than shows that: it may be a sparse
        one of any size.
        """
        try:
            with open_regular(self.path(key)) as file:
                head, size = file.read(_HEAD), os.fstat(file.fileno()).st_size
                if len(head) == size:
                    return head
                end = min(size, read_head(head, key).file_size + 1)
                return head + file.read(max(end - len(head), 0))
        except (OSError, MemoryError):
            return None
        except DamagedEntry:
            return head

    def remove_no_file(self, key: str) -> None:
        """Remove what is no file in the place of an entry: a pipe, a link to nowhere, a folder."""
        path = self.path(key)
        # Another build may have done it, the folder has something in it, or that around it is
        # read-only.
        with contextlib.suppress(OSError):
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            elif not self.has(key):
                path.unlink()

    def touch(self, key: str) -> None:
        """Say that an entry was used now; `store.prune` removes the least recently used first."""
        # The folder may be read-only, or of somebody else.
        with contextlib.suppress(OSError):
            os.utime(self.path(key))

    def write(self, key: str, raw: bytes) -> None:
        """Write the file of an entry; OSError if the folder cannot be written."""
        path = self.path(key)
        make_folders(path.parent)
        # In a folder of its own: half a file of a killed build is removed by the next one.
        with temporary_folder(self.root) as temporary:
            write_whole(path, raw, temporary / key)

    def remove(self, key: str) -> None:
        """Remove the file of an entry, if it is there."""
        with contextlib.suppress(OSError):  # the folder may be read-only, or of somebody else
            self.path(key).unlink()

    def set_aside(self, key: str) -> bool:
        """Rename the file of a damaged entry, so that it is made again; return whether it is."""
        path = self.path(key)
        aside = path.with_suffix(".damaged")
        # Another build may have done it, or made it again, or the folder is read-only.
        with contextlib.suppress(OSError):
            path.replace(aside)
            os.utime(aside)
            return True
        return False

    def remove_old_damage(self) -> None:
        """Remove the files of entries that were set aside more than 30 days ago."""
        oldest = time.time() - _STAYS
        for folder in _scan(self.root / FORMAT):
            for file in _scan(folder.path):
                # Another build may have done it, or it is somebody else's.
                with contextlib.suppress(OSError):
                    if DAMAGED.fullmatch(file.name) and _changed(file) < oldest:
                        os.unlink(file.path)  # noqa: PTH108 (a Path for each file takes longer)


def _scan(folder: str | Path) -> list[os.DirEntry[str]]:
    with contextlib.suppress(OSError), os.scandir(folder) as found:
        return list(found)
    return []


def _changed(file: os.DirEntry[str]) -> float:
    return file.stat(follow_symlinks=False).st_mtime
