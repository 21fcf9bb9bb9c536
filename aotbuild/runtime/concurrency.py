"""One flight: what several threads ask for at the same time is made once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

V = TypeVar("V")


class SingleFlight(Generic[V]):
    """A cache that makes each value once, with one reentrant lock per key.

    A failure is not cached: the next caller tries again.
    """

    def __init__(self) -> None:
        self._values: dict[Hashable, Any] = {}
        self._locks: dict[Hashable, threading.RLock] = {}

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        """Return the value of `key`; call `make` if there is none."""
        if key not in self._values:
            with self._locks.setdefault(key, threading.RLock()):
                if key not in self._values:
                    made = make()
                    # A re-entrant call may have filled the entry; keep that value.
                    return self._values.setdefault(key, made)  # type: ignore[no-any-return]
        value: V = self._values[key]
        return value

    def __contains__(self, key: Hashable) -> bool:
        return key in self._values

    def forget(self, key: Hashable) -> None:
        """Drop the value of `key`, if there is one."""
        self._values.pop(key, None)

    def clear(self) -> None:
        """Drop every value."""
        self._values.clear()

    def values(self) -> list[V]:
        """Return every value that is made; takes no lock."""
        return list(self._values.values())
