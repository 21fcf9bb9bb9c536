"""Which changes of the state around a function a note tells, and which are none."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from aotbuild.worker.purity.changes import describe_changes
from aotbuild.worker.purity.snapshot import take_snapshot

SOURCE = """
import argparse, array, collections, contextvars, functools, os, threading, types
import jax, numpy as np
GLOBAL, NONE, LIST, TABLE, SET = 1, None, [1], {"a": 1, "b": 2}, {1}
ORDERED = collections.OrderedDict(a=1, b=2)
SPACE, ARGS = types.SimpleNamespace(x=1), argparse.Namespace(x=1)
CHAIN, USER = collections.ChainMap({"x": 1}), collections.UserDict(x=1)
LOCAL, VAR = threading.local(), contextvars.ContextVar("x", default=1)
LOCAL.x = 1
class Mode(threading.local):
    def __init__(self): self.x = 1
MODE = Mode()
class Base: pass
class Other: pass
class Thing(Base):
    x = 1
    def __call__(self): return 1
    @property
    def size(self): return 1
    def run(self): return 1
THING, DEEP = Thing(), {"a": [Thing()]}
def plain(x): return x
def another(x): return x + 1
@jax.jit
def jitted(x): return x
jitted.scale = 1
@jax.custom_jvp
def custom(x): return x
custom.defjvps(lambda g, *_: g)
partial = functools.partial(plain, 1)
partial.scale = 1
class Items(list): pass
ITEMS = Items()
ITEMS.scale = 1
ARRAY, BYTES, TYPED = np.zeros(3), bytearray(b"ab"), array.array("i", [1])
def numbers():
    while True: yield 1
NUMBERS = numbers()
"""
CHANGED = {
    "a global": "GLOBAL = 2",
    "a global that was None": "NONE = {}",
    "an item": "LIST[0] = 2",
    "an entry": "TABLE['a'] = 2",
    "the order of entries": "TABLE['a'] = TABLE.pop('a')",
    "the order of an OrderedDict": "ORDERED.move_to_end('a')",
    "a member": "SET.add(2)",
    "a namespace": "SPACE.x = 2",
    "arguments": "ARGS.x = 2",
    "a ChainMap": "CHAIN['x'] = 2",
    "a UserDict": "USER['x'] = 2",
    "a local": "LOCAL.x = 2",
    "a local's own class": "MODE.x = 2",
    "a ContextVar": "VAR.set(2)",
    "a class attribute": "Thing.x = 2",
    "a class attribute that is hidden": "THING.x = 2",
    "that of an object further below": "DEEP['a'][0].x = 2",
    "a method": "Thing.run = another",
    "a method with underscores": "Thing.__call__ = another",
    "a property": "Thing.size = property(another)",
    "a base class": "Thing.__bases__ = (Other,)",
    "a function": "plain = another",
    "its code": "plain.__code__ = another.__code__",
    "an attribute of a jitted function": "jitted.scale = 2",
    "an attribute of a partial": "partial.scale = 2",
    "an attribute of a list": "ITEMS.scale = 2",
    "an array": "ARRAY[0] = 1",
    "bytes": "BYTES[0] = 1",
    "an array of Python": "TYPED[0] = 2",
    "a generator": "next(NUMBERS)",
}
KEPT = {
    "nothing": "pass",
    "a call": "jitted(1.0), THING(), custom(1.0)",
    "an equal value": "TABLE['a'] = 1",
}


@pytest.fixture
def module() -> Iterator[ModuleType]:
    """A module of the project."""
    found = ModuleType("state_of_project")
    found.__file__ = "/home/me/state_of_project.py"
    sys.modules[found.__name__] = found
    exec(SOURCE, found.__dict__)
    yield found
    del sys.modules[found.__name__]


def is_told(module: ModuleType, change: str) -> bool:
    reference = f"{module.__name__}:another"
    before = take_snapshot(reference, module.another)
    run: Callable[..., Any] = exec
    run(change, module.__dict__)
    return bool(describe_changes(before, take_snapshot(reference, module.another)))


@pytest.mark.parametrize("name", CHANGED)
def test_what_is_told(module: ModuleType, name: str) -> None:
    assert is_told(module, CHANGED[name])


@pytest.mark.parametrize("name", KEPT)
def test_what_is_not_told(module: ModuleType, name: str) -> None:
    assert not is_told(module, KEPT[name])
