"""Describe a Python value without its children: what tells it from another, and a text.

Nothing of the user's code runs.
"""

from __future__ import annotations

import array
import itertools
import random
import types
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from aotbuild.format.canonical import sha256_hex
from aotbuild.worker.purity.normalize import array_digest, same_array
from aotbuild.worker.purity.values import CONTAINERS, PLAIN, cut, is_a, members

# Larger containers compare by their size, and longer strings by their hash.
_MOST_ITEMS = 1000
_LONGEST_TEXT = 10_000
# What a text shows of a list or tuple.
_SHOWN_ITEMS = 4


@dataclass(frozen=True)
class Described:
    """A value as a key to compare and a text to show; `digested` counts the bytes read for it."""

    key: Any
    text: str
    digested: int = 0


@dataclass(frozen=True, eq=False)
class _FrozenArray:
    """An immutable array of jax: its bytes are read only if another object takes its place."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _FrozenArray) and same_array(self.value, other.value)

    __hash__ = object.__hash__


def describe_value(value: Any, most_bytes: int) -> Described | None:
    """Describe a value without its children; None if there is nothing to compare."""
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
    return Described((name, *_more(value)), cut(name))


def _more(value: Any) -> tuple[Any, ...]:
    """Return what else tells an object from another of its name; the objects stay alive."""
    if is_a(value, types.FunctionType):
        return (id(value.__code__),)
    if is_a(value, type):
        return tuple(map(id, type.__dict__["__bases__"].__get__(value)))
    if is_a(value, (bytearray, array.array)):
        return (bytes(memoryview(value).cast("B")),)
    if is_a(value, types.GeneratorType):
        return (value.gi_frame and value.gi_frame.f_lasti,)
    return ()


def random_state(value: Any) -> str | None:
    """Return a digest of the state of a random generator; None for other values."""
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
    order = tuple(map(repr, items)) if plain and issubclass(base, dict) else ()
    if type(value) in (list, tuple) and plain and len(items) <= _SHOWN_ITEMS:
        text = cut(repr(value))
    return Described((base.__name__, len(items), order), text)
