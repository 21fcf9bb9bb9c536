"""What the user's code printed since a job began: it goes to the log, and its end is kept."""

from __future__ import annotations

import io
import sys
from collections import deque

# How much is kept, in characters; a line may be longer than a terminal is wide.
_MOST = 4000


class Printed:
    """The end of what Python code wrote to stdout and stderr, together."""

    def __init__(self) -> None:
        self._parts: deque[str] = deque()
        self._size = 0

    def clear(self) -> None:
        """Forget what was written so far."""
        self._parts.clear()
        self._size = 0

    def add(self, text: str) -> None:
        """Keep a text, and drop old ones that are no longer needed."""
        self._parts.append(text)
        self._size += len(text)
        while self._size - len(self._parts[0]) > _MOST:
            self._size -= len(self._parts.popleft())

    def end(self) -> str:
        """Return the end of what was written."""
        written = "".join(self._parts).rstrip()
        return written if len(written) <= _MOST else f"…{written[-_MOST:]}"


PRINTED = Printed()


class _Stream(io.TextIOWrapper):
    def write(self, text: str) -> int:
        PRINTED.add(text)
        return super().write(text)


def keep_printed() -> None:
    """Replace stdout and stderr of this process by streams whose texts are kept."""
    for name in ("stdout", "stderr"):
        old = getattr(sys, name)
        encoding, errors = old.encoding, old.errors
        # What was printed before a crash is in the log.
        stream = _Stream(old.detach(), encoding, errors, line_buffering=True)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
