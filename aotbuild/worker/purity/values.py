"""Read Python values without running the user's code: their children.

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
import sys
import threading
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

PLAIN = (type(None), bool, int, float, complex, str, bytes)
CONTAINERS: tuple[Any, ...] = (
    collections.OrderedDict,
    dict,
    list,
    tuple,
    set,
    frozenset,
    collections.deque,
)
# Objects of Python's own that programs keep settings in.
HOLDERS: tuple[Any, ...] = (
    *(types.SimpleNamespace, argparse.Namespace, collections.ChainMap, collections.UserDict),
    *(collections.UserList, threading.local),
)
# Modules whose state is not looked at. Python's own are among them, such as logging.
_FOREIGN = {"jax", "jaxlib", "numpy", "aotbuild", *sys.stdlib_module_names}
_ACCESSORS = ("fget", "fset", "fdel")
# What counts of a class under names with two underscores.
_CODE = (types.FunctionType, property, staticmethod, classmethod)
# The kind of place that functools.cache is.
CACHE_AROUND = "cache around"
_CACHE = type(functools.cache(lambda: None))
_MOST_CHILDREN = 1000
# The characters that a text shows.
_LONGEST = 60


@dataclass(frozen=True)
class Child:
    """A child of a value.

    `suffix` continues the expression of the parent. `kind` is the kind of place, "" for the
    parent's.
    """

    suffix: str
    value: Any
    kind: str = ""


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
        yield from _attributes(value) if type(value) not in CONTAINERS else ()
    elif is_a(value, types.FunctionType):
        yield from _of_function(value)
    elif is_a(value, types.MethodType):
        yield Child(".__self__", value.__self__)
        yield Child("", value.__func__)
    elif is_a(value, (functools.partial, property)):
        names = ("func", "args", "keywords") if is_a(value, functools.partial) else _ACCESSORS
        yield from (Child(f".{name}", getattr(value, name)) for name in names)
        yield from _attributes(value)
    elif is_a(value, (staticmethod, classmethod)):
        yield Child("", value.__func__)
    elif is_a(value, type):
        yield from _of_class(value)
    elif is_a(value, contextvars.ContextVar):
        yield Child(".get()", contextvars.ContextVar.get(value, None))
    elif is_a(value, BaseException):
        yield Child(".args", vars(BaseException)["args"].__get__(value))
        yield from _attributes(value)
    elif not is_a(value, (np.ndarray, types.ModuleType)):
        yield from _attributes(value)


def _of_class(value: type) -> Iterator[Child]:
    for name, item in [] if is_foreign(value) else list(vars(value).items()):
        if name[:2] != "__" or is_a(item, _CODE):
            yield Child(f".{name}", item, "class attribute")


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
        # What the project has put there: `step.scale = 2` where step is under jax.jit.
        is_around = "__wrapped__" in attributes or is_a(value, functools.partial)
        named = attributes.items() if is_around else ()
        yield from (Child(f".{n}", v, "attribute") for n, v in named if n[0] != "_")
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
    kind = threading.local if is_a(value, threading.local) else object
    try:
        return kind.__getattribute__(value, "__dict__")
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
