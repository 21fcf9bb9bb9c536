"""Caches of the project around functions of others, as `load = functools.cache(numpy.load)`.

Whoever calls one first is seen to read a file. The next gets what is kept, without a line of
Python running that could be seen. Functions of the project's own in a cache are another matter:
what they read belongs to their module.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Iterator
from contextlib import suppress
from types import ModuleType
from typing import Any

from aotbuild.worker.recording.owners import kind_of

_CACHE: Any = type(functools.cache(len))


def caches_of_others(module: ModuleType) -> Iterator[str]:
    """Yield the names of such caches among the globals of a module."""
    for name, value in [*vars(module).items()]:
        if type(value) is _CACHE and not _is_own(value.__wrapped__) and not _is_librarys(value):
            yield name


def _is_own(function: Any) -> bool:
    """Return whether a function is written in Python, in the user's own source."""
    with suppress(ValueError):  # it wraps itself
        function = inspect.unwrap(function)  # the recording has wrapped some of the library's
    file = getattr(getattr(function, "__code__", None), "co_filename", None)
    return kind_of(str(getattr(function, "__module__", "")), file) == "own"


def _is_librarys(cache: Any) -> bool:
    """Return whether a cache is what its function is called in a library, which has made it."""
    found: Any = sys.modules.get(str(getattr(cache, "__module__", "")))
    for part in str(getattr(cache, "__qualname__", "")).split("."):
        found = getattr(found, part, None)
    return found is cache
