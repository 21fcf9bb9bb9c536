"""The SHA-256 of files, each read once as long as nobody writes to it.

A digest is kept under what the system says of the file: device, inode, size, and the times of its
last change in nanoseconds. No program can set the second of them (`st_ctime_ns`), so an edit that
restores size and mtime is seen. A file that has just changed might change again within one tick of
that clock, so its digest is not kept on disk.

A new hard link to a file changes that time, too: uv makes one of each file in each environment that
it installs. So a file that is `held` while it is read counts as unchanged if only that is new.
"""

from __future__ import annotations

import json
import os
import stat
import time
from functools import cached_property
from pathlib import Path
from typing import Any

from aotbuild.format.canonical import canonical_json
from aotbuild.format.files import make_folders, open_regular, write_whole
from aotbuild.format.sources import file_digest
from aotbuild.format.temporary import temporary_folder

# The name of the file that keeps them, below the front of the store.
DIGESTS = "digests.json"
MISSING, FOLDER, UNREADABLE = "missing", "folder", "unreadable"
# A file that changed less than this ago, in nanoseconds, is read again next time.
_SETTLED = 2_000_000_000
_MOST = 10_000
# A larger file is none of ours, in bytes.
_MOST_BYTES = 1 << 24


class FileDigests:
    """Digests of files. With `file`, they are kept there from one process to the next.

    `newest` is the time of the last change of any file that was asked for, in nanoseconds.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._seen: dict[str, str] = {}
        self._held: dict[str, tuple[int, ...] | None] = {}
        self._new: set[str] = set()

    @cached_property
    def _kept(self) -> dict[str, str]:
        # When the first digest is asked for: until then, another process may have kept more.
        return _read(self._file) if self._file else {}

    def hold(self, path: str) -> None:
        """Note which file is there when it is read for the first time."""
        if path in self._held:
            return
        try:
            self._held[path] = _identity(os.stat(path))  # noqa: PTH116 (there are a thousand)
        except OSError:
            self._held[path] = None

    def of(self, path: str, *, since: int | None = None) -> str:
        """Return the digest of a file, or `missing`, `folder` or `unreadable`.

        With `since`, a time in nanoseconds, ChangedSince is raised for a file that changed later;
        of a file that is held, a new link to it is no change. NoFile is raised for a pipe.
        """
        now = time.time_ns()
        try:
            found = os.stat(path)  # noqa: PTH116 (there are a thousand of them)
        except OSError:
            return MISSING
        if stat.S_ISDIR(found.st_mode):
            return FOLDER
        if not stat.S_ISREG(found.st_mode):
            if since is not None:
                raise NoFile(path)
            return UNREADABLE
        changed = max(found.st_mtime_ns, found.st_ctime_ns)
        if since is not None and changed >= since:
            is_held = found.st_mtime_ns < since and self._held.get(path) == _identity(found)
            if not is_held:
                raise ChangedSince(path)
        parts = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        key = ":".join(map(str, parts))
        digest = self._seen.get(key) or self._kept.get(key)
        if digest is None:
            try:
                digest = file_digest(Path(path))
            except OSError:
                return UNREADABLE
            if now - changed > _SETTLED:
                self._new.add(key)
        self._seen[key] = digest
        return digest

    def save(self) -> None:
        """Keep what was found, if there is anything new and the folder can be written."""
        if self._file is None or not self._new:
            return
        used = {k: d for k, d in self._seen.items() if k in self._new or k in self._kept}
        self._new.clear()
        kept = {**_read(self._file), **used}
        try:
            make_folders(self._file.parent)
            # In a folder of its own: half a file of a killed build is removed by the next one.
            with temporary_folder(self._file.parent) as temporary:
                data = canonical_json(kept if len(kept) <= _MOST else used)
                write_whole(self._file, data, temporary / self._file.name)
        except OSError:
            pass


class ChangedSince(Exception):
    """A file was written to while it was in use; the text is its path."""


class NoFile(ChangedSince):
    """What was read is a pipe or a device, which may give something else each time."""


def _identity(found: os.stat_result) -> tuple[int, ...]:
    """Return what stays the same when only a link to a file is made or removed."""
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _read(file: Path) -> dict[str, str]:
    try:
        with open_regular(file) as opened:
            found: Any = json.loads(opened.read(_MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {key: digest for key, digest in found.items() if isinstance(digest, str)}
