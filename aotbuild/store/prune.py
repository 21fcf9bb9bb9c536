"""What a folder of the store holds, and removing from it what was not used for long.

An entry's last use is the time of its file, which each hit sets. Builds may run meanwhile: they
read an entry as a whole and take a missing one for a miss, so the worst that pruning can do to them
is another compilation.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from aotbuild.store.entry import KEY
from aotbuild.store.folder import FORMAT

# Temporary files of builds that were killed are removed after so many seconds.
_ABANDONED = 24 * 3600.0


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


@dataclass(frozen=True)
class Pruned:
    """The entries that were removed, and those that are left."""

    removed: tuple[Item, ...]
    left: tuple[Item, ...]


def survey(root: Path) -> list[Item]:
    """Return the entries in a folder of the store, by path; none if there is no folder. OSError."""
    return [item for item in _items(root) if KEY.fullmatch(item.key)]


def prune(
    root: Path,
    now: float,
    *,
    max_size: int | None = None,
    older_than: float | None = None,
    dry_run: bool = False,
) -> Pruned:
    """Remove entries that were not used for `older_than` seconds, then others down to `max_size`.

    `max_size` is in bytes. Temporary files that killed builds left go, too. Raises OSError at the
    end if some could not be removed; those that could be are gone then.
    """
    items = list(_items(root))
    entries = [item for item in items if KEY.fullmatch(item.key)]
    chosen = _choose(entries, now, max_size, older_than)
    if not dry_run:
        abandoned = [i for i in items if i.key.startswith(".") and now - i.used > _ABANDONED]
        _remove(root, [*chosen, *abandoned])
    gone = {item.path for item in chosen}
    return Pruned(tuple(chosen), tuple(item for item in entries if item.path not in gone))


def _items(root: Path) -> Iterator[Item]:
    """Yield the files in the folders below, each of which has the first two digits of its keys."""
    with suppress(FileNotFoundError):
        for folder in sorted((root / FORMAT).iterdir()):
            if len(folder.name) != 2 or not folder.is_dir():
                continue
            for path in sorted(folder.iterdir()):
                with suppress(FileNotFoundError):  # another process has removed it
                    found = path.lstat()
                    yield Item(path, found.st_size, found.st_mtime)


def _choose(
    entries: Iterable[Item], now: float, max_size: int | None, older_than: float | None
) -> list[Item]:
    # What was used in the future, as the clock of that time said, counts as used now.
    oldest_first = sorted(entries, key=lambda item: min(item.used, now))
    left = sum(item.size for item in oldest_first)
    chosen = []
    for item in oldest_first:
        too_old = older_than is not None and now - item.used > older_than
        if too_old or (max_size is not None and left > max_size):
            chosen.append(item)
            left -= item.size
    return chosen


def _remove(root: Path, items: Iterable[Item]) -> None:
    """Remove files that were not used meanwhile; OSError if some are still there."""
    failed = []
    for item in items:
        try:
            if os.lstat(item.path).st_mtime == item.used:
                item.path.unlink()
        except FileNotFoundError:
            pass  # another process has removed it
        except OSError as err:
            failed.append(err)
    if failed:
        reason = f"{len(failed)} files cannot be removed: {failed[0].strerror}"
        raise OSError(failed[0].errno, reason, str(root))
