"""A model as libraries write them: its static data has closures, bound methods, caches and cycles.

Tests edit this text, and import it from several folders: see tests/format/test_fingerprint.py.
"""

from __future__ import annotations

import collections
import enum
import functools
import re
import threading
import types
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

SENTINEL = object()


class Transform(NamedTuple):
    init: Callable[..., Any]
    update: Callable[..., Any]


def scale(rate: float) -> Transform:
    def update(gradients: list[float]) -> list[float]:
        factor = 1.0
        return [-rate * factor * g for g in gradients]

    return Transform(lambda params: None, update)


def chain(*parts: Transform) -> Transform:
    return Transform(
        lambda params: [part.init(params) for part in parts],
        lambda gradients: functools.reduce(lambda g, part: part.update(g), parts, gradients),
    )


class Mode(enum.Enum):
    FAST = 1


@dataclass
class Dense:
    features: int
    activation: Callable[..., Any]
    dtype: Any = np.float32

    def apply(self, x: Any) -> Any:
        return self.activation(x * self.features)


class Frozen(collections.abc.Mapping[str, Any]):
    """Keeps its hash, which depends on PYTHONHASHSEED."""

    def __init__(self, **items: Any) -> None:
        self._items, self._hash = items, None

    def __getitem__(self, key: str) -> Any:
        return self._items[key]

    def __iter__(self) -> Any:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        self._hash = hash(tuple(self._items))
        return self._hash


class Ring:
    """Leads back to itself, and has what means nothing in another process."""

    def __init__(self, size: int) -> None:
        self.size, self.lock = size, threading.Lock()
        self.links = [self, {"me": self}]
        self.weak = weakref.ref(self)

    @functools.cached_property
    def address(self) -> int:
        return id(self)

    def step(self, x: int) -> int:
        return x + self.size


class Tagged(str):
    tag: str


class Pickled:
    def __init__(self, value: int) -> None:
        self.value, self.computed = value, id(self)

    def __reduce__(self) -> Any:
        return Pickled, (self.value,)


def tagged(text: str, tag: str) -> Tagged:
    found = Tagged(text)
    found.tag = tag
    return found


def count_down(start: int) -> Callable[[int], int]:
    """Return a closure that is in its own cell."""

    def count(n: int) -> int:
        return start if n <= 0 else count(n - 1)

    return count


def local(width: int) -> Any:
    class Layer:
        def __init__(self) -> None:
            self.width = width

        def double(self) -> int:
            return 2 * self.width

    return Layer()


def hashed(value: Any) -> Any:
    hash(value)
    return value


def read(value: Any) -> Any:
    value.address  # noqa: B018 (fills the cache)
    return value


def values() -> dict[str, Any]:
    """Return static data that has no encoding, by name."""
    return {
        "optimizer": chain(scale(0.001), scale(2.0)),
        "bound method": Dense(8, lambda x: x + 1).apply,
        "field": Dense(8, max, np.dtype("int32")),
        "lambda": lambda x, y=3: x * y + 7,
        "partial": functools.partial(scale, rate=0.5),
        "keyword default": (lambda *, depth=2: depth,),
        "mapping": hashed(Frozen(a=1, b=np.float32(2))),
        "proxy": types.MappingProxyType({"a": np.int64(1)}),
        "ordered": collections.OrderedDict(b=1, a=2),
        "default": collections.defaultdict(list, {"a": [1]}),
        "set": {"one", "two", "three", np.int8(4), Mode.FAST},
        "text": tagged("a", "b"),
        "ring": Ring(3),
        "ring in use": read(Ring(3)),
        "ring's method": Ring(3).step,
        "pickled": Pickled(1),
        "recursive": count_down(5),
        "local class": local(6),
        "pattern": re.compile("a+"),
        "scalar": [np.int64(1), np.float32(1)],
        "array": np.arange(1000),
        "objects": np.array([1, "a", None], dtype=object),
        "module": np,
        "methods": ["a".join, dict.fromkeys, str.upper],
        "cached": functools.lru_cache(lambda x: x),
        "sentinel": SENTINEL,
        "nothing": None,
    }
