"""What tracing reads from the world (clocks, random numbers, files), and another world for it.

While a function is traced, other functions take the place of those that read a clock or draw random
numbers, in every module that has them. Opening a file is an audit event of Python.
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
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

# How much later it is in a shifted trace, in seconds: each part of a date and a time is another.
_SHIFT = 400 * 86_400 + 5 * 3600 + 13 * 60 + 17.37
_OTHER_SEED = 1_234_577

# Modules of Python that read something for themselves.
_QUIET = {
    *("asyncio", "concurrent", "importlib", "inspect", "linecache", "logging", "multiprocessing"),
    *("pkgutil", "subprocess", "tempfile", "threading", "tokenize", "traceback", "warnings"),
}
# Files that are no data: code, and what describes packages and this machine.
_CODE = (".py", ".pyc", ".pyi", ".so", ".pth", "METADATA", "RECORD", "entry_points.txt")
_SYSTEM = ("/dev/", "/etc/", "/proc/", "/sys/", "/usr/share/zoneinfo/")


@dataclass(frozen=True)
class Read:
    """Something that was read, in words, and the `file:line in function` that did it, if known."""

    words: str
    line: str = ""
    is_file: bool = False

    @property
    def is_librarys(self) -> bool:
        """Whether an installed package read it."""
        return "-packages" in self.line

    def __str__(self) -> str:
        return f"{self.words} while tracing{', at ' if self.line else ''}{self.line}"


@dataclass
class Watch:
    """What one trace reads. `shifted`: clocks and random numbers are others than they are."""

    shifted: bool
    reads: dict[Read, None] = field(default_factory=dict)

    def note(self, words: str, *, is_file: bool = False) -> bool:
        """Note a read of the function that is traced; return False if it is somebody else's."""
        line = _reader(through_jax=is_file)
        if line:
            self.reads[Read(words, line, is_file)] = None
        return bool(line)


# The one at work. Modules that are imported meanwhile keep what took a function's place.
_watch: Watch | None = None


@contextmanager
def watched(*, shifted: bool) -> Iterator[Watch]:
    """Note what the block reads. If `shifted`, random generators are afterwards as before."""
    global _watch
    _listen()
    before = _random_states()
    if shifted:
        random.seed(_OTHER_SEED)
        np.random.seed(_OTHER_SEED)
    started, places = _random_states(), _replace()
    watch = _watch = Watch(shifted)
    try:
        yield watch
    finally:
        _watch = None
        for namespace, name, original, other in places:
            if namespace.get(name) is other:
                namespace[name] = original
        known = {read.words for read in watch.reads}
        for words, state in _random_states().items():
            if repr(state) != repr(started[words]) and words not in known:
                watch.reads[Read(words)] = None
        if shifted:
            random.setstate(before[_DRAWN.format("random")])
            np.random.set_state(before[_DRAWN.format("numpy.random")])


_DRAWN = "random numbers were drawn from `{}`"


def _random_states() -> dict[str, Any]:
    """Return the states of Python's generator and numpy's, by the words for a draw from it."""
    states = {"random": random.getstate(), "numpy.random": np.random.get_state()}
    return {_DRAWN.format(name): state for name, state in states.items()}


def _replace() -> list[tuple[dict[str, Any], str, Any, Any]]:
    """Replace the functions in all modules; return namespace, name, function and replacement."""
    others = _others()
    known = _places(len(sys.modules))
    places = [
        (*place, others[id(place[2])]) for place in known if place[0].get(place[1]) is place[2]
    ]
    for namespace, name, _, other in places:
        namespace[name] = other
    return places


@functools.lru_cache(maxsize=1)
def _places(_: int) -> list[tuple[dict[str, Any], str, Any]]:
    """Return where modules have the functions: namespace, name and function.

    They are looked for again when there is another number of modules: there are thousands.
    """
    others, holders = _others(), {"datetime", "os", "random", "time"}
    kept = {"aotbuild", "jax", "jaxlib", *sys.stdlib_module_names} - holders
    found = []
    for module_name, module in list(sys.modules.items()):
        namespace: Any = getattr(module, "__dict__", None)
        if module_name.partition(".")[0] not in kept and type(namespace) is dict:
            names = [name for name, value in namespace.items() if id(value) in others]
            found += [(namespace, name, namespace[name]) for name in names]
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


def _clock_is_later(name: str) -> bool:
    """Note that a clock is read; return whether it is to be later."""
    watch = _watch
    if watch is None or not watch.note(f"the clock `{name}` was read"):
        return False
    return watch.shifted


def _later(name: str, read: Callable[[], Any], shift: Any) -> Callable[[], Any]:
    @functools.wraps(read)
    def later() -> Any:
        return read() + shift if _clock_is_later(name) else read()

    return later


def _told(name: str, place: int) -> Callable[..., Any]:
    """Return a function of `time` that reads the clock unless it is told a time."""
    tell, now, struct = getattr(time, name), time.time, time.localtime

    @functools.wraps(tell)
    def told(*given: Any) -> Any:
        if len(given) > place or not _clock_is_later(f"time.{name}"):
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
            is_later = _clock_is_later(f"datetime.datetime.{name}")
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
        if _watch is not None:
            _watch.note(words)
        return draw(*args, **kwargs)

    return drawn


@functools.cache
def _listen() -> None:
    """Hear of every file that is opened, from now on."""
    sys.addaudithook(_hear)


def _hear(event: str, args: tuple[Any, ...]) -> None:
    if _watch is None or event != "open":
        return
    path, _, flags = (*args, None, None, None)[:3]
    is_written = not isinstance(flags, int) or flags & (os.O_WRONLY | os.O_RDWR)
    if is_written or not isinstance(path, (str, bytes, os.PathLike)):
        return
    name = os.fsdecode(path)
    if not name.endswith(_CODE) and not name.startswith(_SYSTEM):
        _watch.note(f"the file `{Path(name).name}` was read", is_file=True)


def _reader(*, through_jax: bool) -> str:
    """Return the `file:line in function` that reads; "" if it is jax, Python, or an import.

    Where jax opens a file, `through_jax`, somebody else has named the file.
    """
    frame: FrameType | None = sys._getframe()
    found = ""
    while frame is not None:
        code, kind = frame.f_code, _kind_of_code(frame.f_code.co_filename)
        if kind == "quiet" or (kind == "jax" and not (found or through_jax)):
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
