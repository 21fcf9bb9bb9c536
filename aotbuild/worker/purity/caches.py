"""Put back what libraries' objects had before a trace: some keep traced values in caches."""

from __future__ import annotations

import collections
import itertools
import operator
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from aotbuild.worker.purity.values import (
    HOLDERS,
    attributes_of,
    is_a,
    is_foreign,
    is_opaque,
    members,
)

_MUTABLE: tuple[Any, ...] = (collections.OrderedDict, dict, list, set, collections.deque)


def belongs_to_library(value: Any, *, holder: bool) -> bool:
    """Return whether an object is a library's; `holder` says it of the object that has it.

    Containers, and other objects of Python's and jax's types, belong to what has them.
    """
    if is_a(value, types.FunctionType):
        return is_foreign(value)
    if is_a(value, HOLDERS) or is_opaque(value):
        return holder
    return is_foreign(type(value))


@dataclass(frozen=True)
class Contents:
    """What was in a mutable container: its items, or keys and values by turns."""

    container: Any
    items: tuple[Any, ...]

    @classmethod
    def of(cls, container: Any) -> Contents:
        """Return what is in a container now."""
        if is_a(container, dict):
            return cls(container, tuple(itertools.chain(*dict.items(container))))
        return cls(container, tuple(members(container)))

    def put_back(self) -> bool:
        """Make the container have what it had; return whether it had changed."""
        now = Contents.of(self.container).items
        if len(now) == len(self.items) and all(map(operator.is_, now, self.items)):
            return False
        base = next(base for base in _MUTABLE if is_a(self.container, base))
        base.clear(self.container)
        if issubclass(base, dict):
            for key, value in zip(self.items[::2], self.items[1::2], strict=True):
                base.__setitem__(self.container, key, value)
        else:
            add = base.add if base is set else base.append
            for item in self.items:
                add(self.container, item)
        return True


def mutable_contents(value: Any) -> Iterator[Contents]:
    """Yield what is in a container, or in the attributes of an object."""
    for container in (value, None if is_opaque(value) else attributes_of(value)):
        if is_a(container, _MUTABLE):
            yield Contents.of(container)
