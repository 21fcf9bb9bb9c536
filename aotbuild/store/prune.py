"""Removing entries from a folder of the store: the least recently used first.

An entry's last use is the time of its file, which each hit sets. Builds may run meanwhile: they
read an entry as a whole and take a missing one for a miss, so the worst that pruning can do to them
is another compilation.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from aotbuild.format.temporary import remove_abandoned
from aotbuild.store.contents import Item, old_folders, survey


@dataclass(frozen=True)
class Pruned:
    """The entries and leftovers that were removed, and the entries that are left."""

    entries: tuple[Item, ...]
    leftovers: tuple[Item, ...]
    left: tuple[Item, ...]


def prune(
    root: Path,
    now: float,
    *,
    max_size: int | None = None,
    older_than: float | None = None,
    dry_run: bool = False,
) -> Pruned:
    """Remove entries that were not used for `older_than` seconds, then others down to `max_size`.

    `max_size` is in bytes. Files that interrupted or older builds left go, too. Raises OSError at
    the end if some could not be removed; those that could be are gone then.
    """
    contents = survey(root)
    chosen = _choose(contents.entries, now, max_size, older_than)
    removed = {item.path for item in (*contents.leftovers, *chosen)}
    if not dry_run:
        remove_abandoned(root)
        removed = _remove(root, [*contents.leftovers, *chosen])
        _remove_empty(old_folders(root))
        _correct([item for item in contents.entries if item.path not in removed], now)
    return Pruned(
        tuple(item for item in chosen if item.path in removed),
        tuple(item for item in contents.leftovers if item.path in removed),
        tuple(item for item in contents.entries if item.path not in removed),
    )


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


def _remove(root: Path, items: Iterable[Item]) -> set[Path]:
    """Remove files that were not used meanwhile; return them. OSError if some are still there."""
    removed, failed = set(), []
    for item in items:
        try:
            if os.lstat(item.path).st_mtime != item.used:
                continue
            item.path.unlink()
        except FileNotFoundError:
            pass  # another process has removed it
        except OSError as err:
            failed.append(err)
            continue
        removed.add(item.path)
    if failed:
        reason = f"{len(failed)} files cannot be removed: {failed[0].strerror}"
        raise OSError(failed[0].errno, reason, str(root))
    return removed


def _remove_empty(old: Iterable[Path]) -> None:
    """Remove the folders of earlier formats, as far as nothing is in them any more.

    Those of today's format stay: a build may be about to write there.
    """
    for folder in old:
        with contextlib.suppress(OSError):
            for shard in folder.iterdir():
                with contextlib.suppress(OSError):
                    shard.rmdir()
            folder.rmdir()


def _correct(entries: Iterable[Item], now: float) -> None:
    """Set last uses in the future to now: those entries would never grow old."""
    for item in entries:
        if item.is_ahead(now):
            with contextlib.suppress(OSError):
                os.utime(item.path, (now, now), follow_symlinks=False)
