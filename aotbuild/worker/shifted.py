"""Shift clocks and reseed random sources for a second trace, and note which lines read them.

Inside `shifted()`, replacements stand for the functions that read a clock or draw random numbers,
in every module that has them.
"""

from __future__ import annotations

import datetime as dt
import functools
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np

# The shift of clocks in seconds; it changes every part of a date and a time.
_SHIFT = 400 * 86_400 + 5 * 3600 + 13 * 60 + 17.37
_OTHER_SEED = 1_234_577
# Modules of Python that read a clock for themselves.
_QUIET = frozenset(
    {
        *("asyncio", "concurrent", "importlib", "inspect", "linecache", "logging"),
        *("multiprocessing", "pkgutil", "subprocess", "tempfile", "threading", "tokenize"),
        *("traceback", "warnings"),
    }
)
_DRAWN = "random numbers were drawn from `{}`"

# What was read in the block at work, and by which line; None outside of any. Modules that are
# imported meanwhile keep what took a function's place.
_reads: dict[str, None] | None = None


@contextmanager
def shifted() -> Iterator[dict[str, None]]:
    """Shift clocks and random sources in the block; yield what the block reads, as texts."""
    global _reads
    random.seed(_OTHER_SEED)
    np.random.seed(_OTHER_SEED)
    places = _replace()
    reads = _reads = {}
    try:
        yield reads
    finally:
        _reads = None
        for namespace, name, original, other in places:
            if namespace.get(name) is other:
                namespace[name] = original


def _replace() -> list[tuple[dict[str, Any], str, Any, Any]]:
    """Replace the functions in all modules; return namespace, name, function and replacement."""
    others, holders = _others(), {"datetime", "os", "random", "time"}
    kept = {"aotbuild", "jax", "jaxlib", *sys.stdlib_module_names} - holders
    found = []
    for module_name, module in list(sys.modules.items()):
        namespace: Any = getattr(module, "__dict__", None)
        if module_name.partition(".")[0] not in kept and type(namespace) is dict:
            for name, value in [*namespace.items()]:
                if id(value) in others:
                    namespace[name] = others[id(value)]
                    found.append((namespace, name, value, others[id(value)]))
    return found


@functools.cache
def _others() -> dict[int, Any]:
    """Return what takes a function's place, by the function's address."""
    pairs: list[tuple[Any, Any]] = [(dt.datetime, _later_datetime())]
    for name in ("monotonic", "perf_counter", "process_time", "thread_time", "time"):
        seconds, nanoseconds = getattr(time, name), getattr(time, f"{name}_ns")
        pairs.append((seconds, _later(f"time.{name}", seconds, _SHIFT)))
        pairs.append((nanoseconds, _later(f"time.{name}_ns", nanoseconds, int(_SHIFT * 1e9))))
    # Each takes a time, at this place; without it, it reads the clock.
    for name, place in {"ctime": 0, "gmtime": 0, "localtime": 0, "strftime": 1}.items():
        pairs.append((getattr(time, name), _told(name, place)))
    pairs.append((os.urandom, _drawn("random bytes were drawn from `os.urandom`", os.urandom)))
    for module in (random, np.random):
        words, generator = _DRAWN.format(module.__name__), _owner(module.random)
        for name, value in vars(module).items():
            if _owner(value) is generator and "state" not in name and name != "seed":
                pairs.append((value, _drawn(words, value)))
    # Each keeps the function that it calls, so no other object gets its address.
    return {id(original): other for original, other in pairs}


def _owner(method: Any) -> Any:
    return getattr(method, "__self__", method)


def _is_read(words: str) -> bool:
    """Note that the function reads something; return False if jax, Python or an import does."""
    line = _reader() if _reads is not None else ""
    if _reads is None or not line:
        return False
    _reads[f"{words} while tracing, at {line}"] = None
    return True


def _later(name: str, read: Callable[[], Any], shift: Any) -> Callable[[], Any]:
    @functools.wraps(read)
    def later() -> Any:
        return read() + shift if _is_read(f"the clock `{name}` was read") else read()

    return later


def _told(name: str, place: int) -> Callable[..., Any]:
    """Return a function of `time` that reads the clock unless it is told a time."""
    tell, now, struct = getattr(time, name), time.time, time.localtime

    @functools.wraps(tell)
    def told(*given: Any) -> Any:
        if len(given) > place or not _is_read(f"the clock `time.{name}` was read"):
            return tell(*given)
        moment = now() + _SHIFT
        return tell(*given, struct(moment) if name == "strftime" else moment)

    return told


def _later_datetime() -> Any:
    """Return a `datetime` whose clock can be later; its instances are real ones.

    `today` of this and of `date` asks `time.time`, which can be later, too.
    """
    real = dt.datetime

    class Meta(type):
        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, real)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, real)

    def clock(name: str) -> Any:
        read = getattr(real, name)

        def later(_: Any, *args: Any, **kwargs: Any) -> Any:
            is_later = _is_read(f"the clock `datetime.datetime.{name}` was read")
            return read(*args, **kwargs) + dt.timedelta(seconds=_SHIFT * is_later)

        return classmethod(later)

    def new(cls: type, *args: Any, **kwargs: Any) -> Any:
        return real.__new__(real if cls is other else cls, *args, **kwargs)

    clocks = {name: clock(name) for name in ("now", "utcnow")}
    other = Meta("datetime", (real,), {"__new__": new, "__module__": "datetime", **clocks})
    return other


def _drawn(words: str, draw: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(draw)
    def drawn(*args: Any, **kwargs: Any) -> Any:
        _is_read(words)
        return draw(*args, **kwargs)

    return drawn


def _reader() -> str:
    """Return the `file:line in function` that reads; "" if it is jax, Python, or an import."""
    frame: FrameType | None = sys._getframe()
    found = ""
    while frame is not None:
        code, kind = frame.f_code, _kind_of_code(frame.f_code.co_filename)
        if kind == "quiet" or (kind == "jax" and not found):
            return ""
        if kind == "aotbuild" and code.co_filename != __file__:
            return found
        if kind == "user" and not found:
            found = f"{code.co_filename}:{frame.f_lineno} in {code.co_qualname}"
        frame = frame.f_back
    return found


@functools.cache
def _kind_of_code(file: str) -> str:
    """Return whose code a file is: "python" and "numpy" read for whoever calls them."""
    if file.startswith("<"):
        return "quiet" if file.startswith("<frozen importlib") else "python"
    for name in ("aotbuild", "jax", "jaxlib", "numpy"):
        if name in sys.modules and file.startswith(_folder(sys.modules[name])):
            return name.removesuffix("lib")
    standard = _folder(os)
    if not file.startswith(standard) or "-packages" in file:
        return "user"
    top = file.removeprefix(standard).partition(os.sep)[0].removesuffix(".py")
    return "quiet" if top in _QUIET else "python"


def _folder(module: Any) -> str:
    return f"{os.path.dirname(module.__file__)}{os.sep}"
