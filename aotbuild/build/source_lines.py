"""Places in the user's source, as lines of a message."""

from __future__ import annotations

import linecache
import re

_PLACE = re.compile(r"(.+):(\d+) in (.*)")


def place_text(line: str) -> str:
    """Return `file:line in function` as lines of a message, with the source; "" for ""."""
    found = _PLACE.fullmatch(line)
    return frame_text(found[1], int(found[2]), found[3]) if found else ""


def frame_text(filename: str, line: int | None, function: str) -> str:
    """Return a place in a file, and the source that is there, if it can be read."""
    source = linecache.getline(filename, line or 0).strip()
    where = f"  at {filename}:{line}{f' in {function}' if function else ''}\n"
    return f"{where}    {source}\n" if source else where
