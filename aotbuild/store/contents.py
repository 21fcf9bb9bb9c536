"""What is in a folder of the store: its entries, and what damage and earlier versions left.

A store may be in a folder that holds other things, too, so only names that the store gives count.
Links to folders are not followed.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from aotbuild.store.folder import DAMAGED, FORMAT, KEY

# Formats of earlier versions, which nothing reads any more.
_OLD_FORMATS = ("v1",)
_SHARD = re.compile(r"[0-9a-f]{2}")
# In folders of the first format, where killed builds left temporary files.
_OLD_NAME = re.compile(r"[0-9a-f]{64}(\.damaged)?|\.[0-9a-f]{50}\.[0-9a-f]{16}")
# In seconds: the clock of a file server may be ahead of ours.
_AHEAD = 300.0


@dataclass(frozen=True)
class Item:
    """A file of the store: its size in bytes, and when it was last used (seconds since 1970)."""

    path: Path
    size: int
    used: float

    @property
    def key(self) -> str:
        """The key of an entry."""
        return self.path.name

    def is_ahead(self, now: float) -> bool:
        """Return whether its last use is in the future: a clock was wrong then, or is now."""
        return self.used > now + _AHEAD


@dataclass(frozen=True)
class Contents:
    """The entries of a folder, and its leftovers; both sorted by path."""

    entries: tuple[Item, ...]
    leftovers: tuple[Item, ...]


def survey(root: Path) -> Contents:
    """Return what is in a folder of the store; nothing if there is no folder. OSError."""
    entries, leftovers = [], []
    for item in _items(root / FORMAT):
        if KEY.fullmatch(item.key):
            entries.append(item)
        elif DAMAGED.fullmatch(item.key):
            leftovers.append(item)
    for folder in old_folders(root):
        leftovers += [item for item in _items(folder) if _OLD_NAME.fullmatch(item.key)]
    return Contents(*(tuple(sorted(i, key=lambda item: item.path)) for i in (entries, leftovers)))


def old_folders(root: Path) -> list[Path]:
    """Return where entries of earlier formats would be."""
    return [root / version for version in _OLD_FORMATS]


def _items(folder: Path) -> Iterator[Item]:
    """Yield the files in the folders below, each of which has the first two digits of its keys."""
    for shard in _scan(folder):
        if _SHARD.fullmatch(shard.name) and shard.is_dir(follow_symlinks=False):
            for file in _scan(shard.path):
                if file.name.lstrip(".").startswith(shard.name) and (item := _item(file)):
                    yield item


def _scan(folder: str | Path) -> list[os.DirEntry[str]]:
    # There may be none, or another process removes it.
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as found:
        return list(found)
    return []


def _item(file: os.DirEntry[str]) -> Item | None:
    """Return a file, or a link itself; None if it is anything else, or has just been removed."""
    try:
        found = file.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    is_file = stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)
    return Item(Path(file.path), found.st_size, found.st_mtime) if is_file else None
