"""Read Python values without running the user's code: their children, keys and texts.

A child of a value is an item, an attribute, a closure variable or a default argument.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import contextvars
import functools
import gc
import itertools
import random
import sys
import threading
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from aotbuild.spec.canonical import sha256_hex
from aotbuild.worker.purity.normalize import array_digest, same_array

PLAIN = (type(None), bool, int, float, complex, str, bytes)
CONTAINERS: tuple[Any, ...] = (dict, list, tuple, set, frozenset, collections.deque)
# Objects of Python's own that programs keep settings in.
HOLDERS: tuple[Any, ...] = (
    *(types.SimpleNamespace, argparse.Namespace, collections.ChainMap, collections.UserDict),
    *(collections.UserList, threading.local),
)
# Modules whose state is not looked at. Python's own are among them, such as logging.
_FOREIGN = {"jax", "jaxlib", "numpy", "aotbuild", *sys.stdlib_module_names}
# The kind of place that functools.cache is.
CACHE_AROUND = "cache around"
_CACHE = type(functools.cache(lambda: None))
_MOST_CHILDREN = 1000
# What a text shows: characters, and items of a list or tuple.
_LONGEST = 60
_SHOWN_ITEMS = 4
# Larger containers compare by their size, and longer strings by their hash.
_MOST_ITEMS = 1000
_LONGEST_TEXT = 10_000


@dataclass(frozen=True)
class Child:
    """A child of a value.

    `suffix` continues the expression of the parent. `kind` is the kind of place, "" for the
    parent's.
    """

    suffix: str
    value: Any
    kind: str = ""


@dataclass(frozen=True)
class Described:
    """A value as a key to compare and a text to show; `digested` counts the bytes read for it."""

    key: Any
    text: str
    digested: int = 0


def children(value: Any) -> Iterator[Child]:
    """Yield the children of a value, at most 1,000."""
    return itertools.islice(_children(value), _MOST_CHILDREN)


def is_foreign(value: Any) -> bool:
    """Return whether a class or function comes from a library, not from the project."""
    file = getattr(sys.modules.get(str(value.__module__)), "__file__", None) or ""
    return _top(value) in _FOREIGN or "-packages" in file


def is_opaque(value: Any) -> bool:
    """Return whether the attributes of an object are not looked at."""
    return _top(type(value)) in _FOREIGN and not is_a(value, HOLDERS)


def _children(value: Any) -> Iterator[Child]:
    if is_a(value, CONTAINERS):
        yield from _items(value)
    elif is_a(value, types.FunctionType):
        yield from _of_function(value)
    elif is_a(value, types.MethodType):
        yield Child(".__self__", value.__self__)
        yield Child("", value.__func__)
    elif is_a(value, functools.partial):
        yield from (Child(f".{n}", getattr(value, n)) for n in ("func", "args", "keywords"))
    elif is_a(value, (staticmethod, classmethod)):
        yield Child("", value.__func__)
    elif is_a(value, type):
        named = [] if is_foreign(value) else list(vars(value).items())
        yield from (Child(f".{n}", v, "class attribute") for n, v in named if n[:2] != "__")
    elif is_a(value, contextvars.ContextVar):
        yield Child(".get()", contextvars.ContextVar.get(value, None))
    elif is_a(value, BaseException):
        yield Child(".args", vars(BaseException)["args"].__get__(value))
        yield from _attributes(value)
    elif not is_a(value, (np.ndarray, types.ModuleType)):
        yield from _attributes(value)


def _items(value: Any) -> Iterator[Child]:
    if is_a(value, dict):
        for number, (key, item) in enumerate(list(dict.items(value))):
            # The repr of any other key may run the user's code.
            shown = repr(key) if _is_plain(key) else f"{type(key).__name__}, key {number}"
            yield Child(f"[{cut(shown)}]", item)
    elif is_a(value, (list, tuple, collections.deque)):
        names = vars(type(value)).get("_fields", ())
        for i, item in enumerate(members(value)):
            yield Child(f".{names[i]}" if i < len(names) else f"[{i}]", item)


def _is_plain(key: Any) -> bool:
    return type(key) in PLAIN or (type(key) is tuple and all(map(_is_plain, key)))


def _of_function(function: types.FunctionType) -> Iterator[Child]:
    attributes = dict(vars(function))
    if "__wrapped__" in attributes:
        yield Child("", attributes.pop("__wrapped__"))
    if is_foreign(function):
        return
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
        with contextlib.suppress(ValueError):  # a variable that is not yet assigned
            yield Child(f".{name}", cell.cell_contents, "closure variable")
    names = code.co_varnames[: code.co_argcount]
    defaults = function.__defaults__ or ()
    pairs = zip(names[len(names) - len(defaults) :], defaults, strict=False)
    for name, default in (*pairs, *(function.__kwdefaults__ or {}).items()):
        yield Child(f".{name}", default, "default argument")
    yield from (Child(f".{name}", item, "attribute") for name, item in attributes.items())


def _attributes(value: Any) -> Iterator[Child]:
    attributes = instance_dict(value)
    if is_a(value, _CACHE):
        yield from (Child("", kept, CACHE_AROUND) for kept in _cached(value))
    if "__wrapped__" in attributes:  # what jax.jit, jax.custom_jvp and functools.cache return
        yield Child("", attributes["__wrapped__"])
    if is_opaque(value):
        return
    for name, item in (*attributes.items(), *_slots(value), *_defaults(value, attributes)):
        if name != "__wrapped__":
            yield Child(f".{name}", item, "attribute")


def _cached(cache: Any) -> Iterator[Any]:
    """Yield what functools.cache or lru_cache keeps; only the garbage collector knows it."""
    for kept in gc.get_referents(cache):
        if is_a(kept, (type, types.FunctionType)) or kept is vars(cache):
            continue
        yield kept
        # In a cache without a size limit, results are in a dict whose keys functools makes.
        yield from kept.values() if type(kept) is dict else ()


def instance_dict(value: Any) -> dict[str, Any]:
    """Return a copy of the attributes of an object or module, without `__getattribute__`."""
    attributes = attributes_of(value)
    return dict(attributes) if is_a(attributes, dict) else {}


def attributes_of(value: Any) -> Any:
    """Return the `__dict__` of an object, which is no dict for classes; None without one."""
    try:
        return object.__getattribute__(value, "__dict__")
    except Exception:  # noqa: BLE001 (no __dict__, or one that runs the user's code)
        return None


def _slots(value: Any) -> Iterator[tuple[str, Any]]:
    for owner in type(value).__mro__:
        for name, descriptor in list(vars(owner).items()):
            if is_a(descriptor, types.MemberDescriptorType) and name != "__dict__":
                try:
                    yield name, descriptor.__get__(value)
                except AttributeError:  # not yet assigned
                    continue


def _defaults(value: Any, attributes: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the plain values that an object has of its class, until it gets its own."""
    found: dict[str, Any] = {}
    for owner in type(value).__mro__:
        if not is_foreign(owner):
            found = {**vars(owner), **found}
    for name, item in found.items():
        if name[:2] != "__" and name not in attributes and type(item) in PLAIN:
            yield name, item


def is_a(value: Any, kinds: Any) -> bool:
    """Return whether a value is of a class; isinstance may run the user's `__class__`."""
    return issubclass(type(value), kinds)


def members(value: Any) -> list[Any]:
    """Return the items, or the keys of a dict, without the user's `__iter__`."""
    base = next(base for base in CONTAINERS if is_a(value, base))
    return list(base.__iter__(value))


def _top(value: Any) -> str:
    return str(value.__module__).partition(".")[0]


def cut(text: str) -> str:
    """Return a text that fits a line of a message."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


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
    return Described(name, cut(name))


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
    if type(value) in (list, tuple) and plain and len(items) <= _SHOWN_ITEMS:
        text = cut(repr(value))
    return Described((base.__name__, len(items)), text)
