"""The C++ dispatches of one backend, whose caches can be cleared together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref


class Dispatches:
    """Remembers C++ dispatches as long as they live; `clear_one` clears the cache of one."""

    def __init__(self, clear_one: Callable[[Any], None]) -> None:
        self._clear_one = clear_one
        self._alive: list[ref[Any]] = []

    def add(self, dispatch: Callable[..., Any]) -> Callable[..., Any]:
        """Remember a dispatch, and return it."""
        self._alive.append(ref(dispatch, self._alive.remove))
        return dispatch

    def clear(self) -> None:
        """Clear their caches. A miss in flight has its entry taken out of the cache already."""
        for dispatch in [each() for each in [*self._alive]]:
            if dispatch is not None:
                self._clear_one(dispatch)
