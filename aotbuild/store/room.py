"""A limit on the bytes that several threads hold in memory at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

# Of entries that are copied at the same time. A larger one is copied alone.
MOST_BYTES = 256 << 20


class Room:
    """Room for so many bytes, shared by threads."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most, self._held = most, 0
        self._changed = threading.Condition()

    @contextmanager
    def holding(self, size: int) -> Iterator[None]:
        """Wait until there is room for so many bytes, or nobody holds any; hold them."""
        with self._changed:
            self._changed.wait_for(lambda: not self._held or self._held + size <= self._most)
            self._held += size
        try:
            yield
        finally:
            with self._changed:
                self._held -= size
                self._changed.notify_all()
