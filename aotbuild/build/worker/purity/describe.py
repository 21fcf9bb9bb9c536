"""One Python value by itself: a key that compares, and a text, made without code of the user's."""

from __future__ import annotations

import itertools
import random
import types
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from aotbuild.build.worker.purity.held import CONTAINERS, PLAIN, cut, is_a, members
from aotbuild.build.worker.purity.neutral import array_digest, same_array
from aotbuild.spec.canonical import sha256_hex

_SHOWN_ITEMS = 4
_MOST_ITEMS = 1000
_LONGEST_TEXT = 10_000


@dataclass(frozen=True)
class Described:
    """A value as a key that compares, and as a text; `digested` counts the bytes that were read."""

    key: Any
    text: str
    digested: int = 0


@dataclass(frozen=True, eq=False)
class _FrozenArray:
    """An array of jax: it cannot change, so its bytes are read only if another takes its place."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _FrozenArray) and same_array(self.value, other.value)

    __hash__ = object.__hash__


def describe_value(value: Any, most_bytes: int) -> Described | None:
    """Describe a value by itself, without what it holds; None where there is nothing to compare."""
    kind = type(value)
    if kind in (str, bytes) and len(value) > _LONGEST_TEXT:
        return Described((kind.__name__, hash(value)), f"{len(value)} of {kind.__name__}")
    if kind in PLAIN:
        text = repr(value)
        return Described((kind.__name__, text), cut(text))
    if is_a(value, CONTAINERS):
        return _container(value)
    if is_a(value, np.ndarray):
        text = f"{value.dtype}{list(value.shape)}"
        small = value.nbytes <= most_bytes
        return Described(array_digest(value), text, value.nbytes) if small else None
    if is_a(value, jax.Array):
        return Described(_FrozenArray(value), f"{value.dtype}{list(value.shape)}")
    state = random_state(value)
    if state is not None:
        return Described(state, "a state")
    if is_a(value, itertools.count):
        return Described(repr(value), repr(value))
    name = f"{kind.__module__}.{kind.__qualname__}"
    if is_a(value, (type, types.FunctionType)):
        name = f"{value.__module__}.{value.__qualname__}"
    return Described(name, cut(name))


def random_state(value: Any) -> str | None:
    """Return a digest of the state of a random generator; None for what is none."""
    if is_a(value, random.Random) and not is_a(value, random.SystemRandom):
        state: Any = random.Random.getstate(value)
    elif is_a(value, np.random.Generator):
        state = sorted(value.bit_generator.state.items())
    elif is_a(value, np.random.RandomState):
        _, words, *rest = value.get_state()
        state = [np.asarray(words).tobytes(), *rest]
    else:
        return None
    return sha256_hex(repr(state).encode())


def _container(value: Any) -> Described:
    items = members(value)
    base = next(base for base in CONTAINERS if is_a(value, base))
    plain = len(items) <= _MOST_ITEMS and all(type(item) in PLAIN for item in items)
    if is_a(value, (set, frozenset)) and plain:
        return Described(("set", frozenset(map(repr, items))), f"a set of {len(items)}")
    text = f"a {base.__name__} of {len(items)}"
    if type(value) in (list, tuple) and plain and len(items) <= _SHOWN_ITEMS:
        text = cut(repr(value))
    return Described((base.__name__, len(items)), text)
