"""What a module replaces in other modules while it is imported: `jax.nn.relu = my_relu`.

Whatever is traced in the process after that runs with the replacement. A function of another module
must not: in the user's process, that module may never be imported.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from aotbuild.worker.recording.owners import kind_of

# Their functions are looked at, but not their state, which jobs change by what they do.
_TRACED = frozenset({"jax", "jaxlib", "ml_dtypes", "numpy", "scipy"})
# What tells one setting from another without running code.
_PLAIN = (bool, int, float, complex, str, bytes, tuple, frozenset, type)
_Values = Mapping[str, Any]


class Attributes:
    """The attributes that modules and their classes had when they were first seen."""

    def __init__(self) -> None:
        self._modules: dict[str, dict[str, Any]] = {}
        self._classes: dict[tuple[str, str], dict[str, Any]] = {}
        self._count = -1
        self.learn()

    def learn(self) -> None:
        """Look at modules that are new, unless they are still being imported."""
        if len(sys.modules) == self._count:
            return
        self._count = len(sys.modules)
        for name, module in _modules(sys.modules.keys() - self._modules.keys()):
            if getattr(getattr(module, "__spec__", None), "_initializing", False):
                self._count = -1
                continue
            self._modules[name] = dict(vars(module))
            if not _is_traced(name):
                classes = _classes(name, module)
                self._classes |= {(name, key): dict(vars(each)) for key, each in classes}

    def replaced(self) -> list[str]:
        """Return the names that have something else now: a setting, or the project's own code."""
        return sorted({*self._of_modules(), *self._of_classes()})

    def _of_modules(self) -> Iterator[str]:
        for name, before in self._modules.items():
            after = vars(sys.modules[name]) if name in sys.modules else before
            others = _others(before, after, settings=not _is_traced(name))
            yield from (f"{name}.{key}" for key in others)

    def _of_classes(self) -> Iterator[str]:
        for (name, key), before in self._classes.items():
            now = vars(sys.modules[name]).get(key) if name in sys.modules else None
            after = vars(now) if issubclass(type(now), type) else before
            yield from (f"{name}.{key}.{each}" for each in _others(before, after, settings=True))


def _modules(names: Iterable[str]) -> Iterator[tuple[str, Any]]:
    for name in names:
        module = sys.modules.get(name)
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and (_is_traced(name) or kind_of(name, file) != "quiet"):
            yield name, module


def _classes(name: str, module: Any) -> Iterator[tuple[str, type]]:
    for key, value in [*vars(module).items()]:
        # By its type: asking some values for their class runs code of theirs.
        if issubclass(type(value), type) and vars(value).get("__module__") == name:
            yield key, value


def _is_traced(name: str) -> bool:
    return name.partition(".")[0] in _TRACED


def _others(before: _Values, after: _Values, *, settings: bool) -> Iterator[str]:
    """Yield the keys with another value; with `settings`, plain values under public names too."""
    for key, old in before.items():
        new = after.get(key, old)
        if new is not old:
            is_setting = settings and key[0] != "_" and issubclass(type(old), _PLAIN)
            if _is_own(new) or (is_setting and _differ(old, new)):
                yield key


def _differ(old: Any, new: Any) -> bool:
    try:
        return type(new) is not type(old) or bool(new != old)
    except (TypeError, ValueError):  # a tuple of arrays
        return True


def _is_own(value: Any) -> bool:
    """Return whether a value is code of the project."""
    try:
        value = value.func if isinstance(value, functools.partial) else value
        module = getattr(getattr(value, "__func__", value), "__module__", None)
    except Exception:  # noqa: BLE001 (the value's own code runs)
        return False
    file = getattr(sys.modules.get(module), "__file__", None) if isinstance(module, str) else None
    return isinstance(file, str) and kind_of(str(module), file) == "own"
