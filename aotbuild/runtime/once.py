"""Make a value once for each key, whichever thread asks first; other keys do not wait."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

V = TypeVar("V")


class _Entry:
    __slots__ = ("lock", "value")

    def __init__(self) -> None:
        # A signal handler or a finalizer may come in the middle, and need the same.
        self.lock = threading.RLock()
        self.value: Any = _NOT_MADE


_NOT_MADE = object()


class Once(Generic[V]):
    """A cache with one lock a key. A failure is not kept: the next caller tries again."""

    def __init__(self) -> None:
        self._entries: dict[Hashable, _Entry] = {}

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        """Return the value of `key`, made by `make` if it is not there."""
        entry = self._entries.setdefault(key, _Entry())
        with entry.lock:
            if entry.value is _NOT_MADE:
                made = make()
                # What such a one was given meanwhile stays the only one.
                if entry.value is _NOT_MADE:
                    entry.value = made
            value: V = entry.value
            return value

    def __contains__(self, key: Hashable) -> bool:
        entry = self._entries.get(key)
        return entry is not None and entry.value is not _NOT_MADE

    def forget(self, key: Hashable) -> None:
        """Forget the value of `key`, if there is one."""
        self._entries.pop(key, None)

    def clear(self) -> None:
        """Forget every value."""
        self._entries.clear()

    def __len__(self) -> int:
        return sum(entry.value is not _NOT_MADE for entry in list(self._entries.values()))
