"""Files that are not what an index says of them. Imports little: each build of a wheel asks."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

from aotbuild.format.sources import SourceDigests, file_digest

# Times of files are this coarse at worst, in nanoseconds.
TICK = 10_000_000


def edited_since(
    files: SourceDigests, root: Path, since: int, always: set[str | None] | None = None
) -> Iterator[str]:
    """Yield the files that are others now, of those that changed after `since`, in nanoseconds.

    Those in `always` are read whenever they changed: they were read before. A manifest that is
    missing does not count, because it may be kept elsewhere.
    """
    for name, digest in files.files.items():
        path = root / name
        try:
            is_new = name in (always or ()) or is_newer(path, since - TICK)
            if is_new and file_digest(path) != digest:
                yield name
        except OSError:
            if name != files.manifest:
                yield name


def is_newer(path: Path, since: int) -> bool:
    """Return whether a file, and no folder, changed after `since`; OSError if it is missing."""
    found = path.stat()
    return stat.S_ISREG(found.st_mode) and max(found.st_mtime_ns, found.st_ctime_ns) >= since
