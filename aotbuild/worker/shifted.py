"""Shift clocks and reseed random sources in the process of a second trace, and note who reads them.

Replacements stand for the functions that read a clock or draw random numbers, in every module that
has them. The process ends after its trace, so nothing is put back.
"""

from __future__ import annotations

import datetime as dt
import functools
import os
import random
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np

from aotbuild.worker.user_errors import is_hidden

# The shift of clocks in seconds; it changes every part of a date and a time.
_SHIFT = 400 * 86_400 + 5 * 3600 + 13 * 60 + 17.37
_OTHER_SEED = 1_234_577
# Of the standard library and jax, only these modules get the replacements.
_HOLDERS = frozenset({"datetime", "os", "random", "time"})
_KEPT = frozenset({"aotbuild", "jax", "jaxlib", *sys.stdlib_module_names}) - _HOLDERS

# What the user's code read, and at which line.
_reads: dict[str, None] = {}


def shift() -> dict[str, None]:
    """Shift clocks and random sources; return what the user's code reads from then on, as texts."""
    random.seed(_OTHER_SEED)
    np.random.seed(_OTHER_SEED)
    others = _replacements()
    for module_name, module in list(sys.modules.items()):
        namespace: Any = getattr(module, "__dict__", None)
        if module_name.partition(".")[0] not in _KEPT and type(namespace) is dict:
            found = {name: others[id(v)] for name, v in namespace.items() if id(v) in others}
            namespace.update(found)
    return _reads


@functools.cache
def _replacements() -> dict[int, Any]:
    """Return what takes a function's place, by the function's address."""
    pairs: list[tuple[Any, Any]] = [(dt.datetime, _later_datetime())]
    for name in ("monotonic", "perf_counter", "process_time", "thread_time", "time"):
        seconds, nanoseconds = getattr(time, name), getattr(time, f"{name}_ns")
        pairs.append((seconds, _later(f"time.{name}", seconds, _SHIFT)))
        pairs.append((nanoseconds, _later(f"time.{name}_ns", nanoseconds, int(_SHIFT * 1e9))))
    # Each takes a time, at this place; without it, it reads the clock.
    for name, place in {"ctime": 0, "gmtime": 0, "localtime": 0, "strftime": 1}.items():
        pairs.append((getattr(time, name), _told(name, place)))
    pairs.append((os.urandom, _noted("random bytes were drawn from `os.urandom`", os.urandom)))
    for module in (random, np.random):
        words, generator = f"random numbers were drawn from `{module.__name__}`", module.random
        for name, value in vars(module).items():
            is_method = getattr(value, "__self__", value) is getattr(generator, "__self__", None)
            if is_method and "state" not in name and name != "seed":
                pairs.append((value, _noted(words, value)))
    # Each keeps the function that it calls, so no other object gets its address.
    return {id(original): other for original, other in pairs}


def _later(name: str, read: Callable[[], Any], shift: Any) -> Callable[[], Any]:
    return _noted(f"the clock `{name}` was read", functools.wraps(read)(lambda: read() + shift))


def _told(name: str, place: int) -> Callable[..., Any]:
    """Return a function of `time` that reads the clock unless it is told a time."""
    tell, now, struct = getattr(time, name), time.time, time.localtime

    @functools.wraps(tell)
    def told(*given: Any) -> Any:
        if len(given) > place:
            return tell(*given)
        _note(f"the clock `time.{name}` was read")
        moment = now() + _SHIFT
        return tell(*given, struct(moment) if name == "strftime" else moment)

    return told


def _later_datetime() -> Any:
    """Return a `datetime` whose clock is later; its instances are real ones.

    `today` of this and of `date` asks `time.time`, which is later, too.
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
            _note(f"the clock `datetime.datetime.{name}` was read")
            return read(*args, **kwargs) + dt.timedelta(seconds=_SHIFT)

        return classmethod(later)

    def new(cls: type, *args: Any, **kwargs: Any) -> Any:
        return real.__new__(real if cls is other else cls, *args, **kwargs)

    clocks = {name: clock(name) for name in ("now", "utcnow")}
    other = Meta("datetime", (real,), {"__new__": new, "__module__": "datetime", **clocks})
    return other


def _noted(words: str, read: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(read)
    def noted(*args: Any, **kwargs: Any) -> Any:
        _note(words)
        return read(*args, **kwargs)

    return noted


def _note(words: str) -> None:
    line = _reader()
    if line:
        _reads[f"{words} while tracing, at {line}"] = None


def _reader() -> str:
    """Return the `file:line in function` of the user's code that reads; "" if jax does."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        kind = _kind_of_code(frame.f_code.co_filename)
        if kind == "jax":
            return ""
        if kind == "user":
            code = frame.f_code
            return f"{code.co_filename}:{frame.f_lineno} in {code.co_qualname}"
        frame = frame.f_back
    return ""


@functools.cache
def _kind_of_code(file: str) -> str:
    """Return whose code a file is; libraries such as Python's own read for whoever calls them."""
    for name in ("jax", "jaxlib"):
        if file.startswith(_folder(sys.modules[name])):
            return "jax"
    return "library" if is_hidden(file) or file.startswith(_folder(np)) else "user"


def _folder(module: Any) -> str:
    return f"{os.path.dirname(module.__file__)}{os.sep}"
