"""Snapshots of the state around a function: what it can read beside its arguments."""

from __future__ import annotations

import sys
import types
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import jax

from aotbuild.worker.purity.caches import Contents, belongs_to_library, mutable_contents
from aotbuild.worker.purity.described import describe_value
from aotbuild.worker.purity.values import (
    PLAIN,
    Child,
    children,
    instance_dict,
    is_a,
)

# Limits of a snapshot: values, bytes of numpy arrays to digest, and how deep values are nested.
# Arrays of jax do not change, so they are not digested.
_MOST_VALUES = 5_000
_MOST_BYTES = 16 * 2**20
_DEEPEST = 8


@dataclass(frozen=True)
class Place:
    """Where a value is kept: a kind of place, such as `global`, and an expression.

    `parent` is the place of the value that has it, None for a variable. `library` is the object of
    a library's that it belongs to, if any.
    """

    kind: str
    expression: str
    parent: Place | None = field(default=None, compare=False)
    library: Place | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"the {self.kind} `{self.expression}`"

    def path(self) -> Iterator[Place]:
        """Yield the place and those that lead there, up to a variable."""
        place: Place | None = self
        while place is not None:
            yield place
            place = place.parent

    def child(self, child: Child) -> Place:
        """Return the place of a child of the value here."""
        expression = f"{self.expression}{child.suffix}"
        return Place(child.kind or self.kind, expression, self, self.library)


@dataclass
class Snapshot:
    """The state around a function at one moment.

    `values` has the value at each place, as a key to compare and a text to show. `tracers` has
    values of a trace, which may be over. `complete` is False if a limit was reached. `contents` is
    what the objects of libraries had.
    """

    values: dict[Place, tuple[Any, str]] = field(default_factory=dict)
    tracers: dict[Place, Any] = field(default_factory=dict)
    complete: bool = True
    contents: list[Contents] = field(default_factory=list)
    # Keeps objects alive, as the address of one that is gone is used again.
    _alive: list[Any] = field(default_factory=list)
    _seen: set[int] = field(default_factory=set)
    _bytes: int = _MOST_BYTES

    def add(self, roots: Iterable[tuple[Place, Any]]) -> None:
        """Add every value that can be reached from some places, the nearest first."""
        waiting = deque((place, value, 0) for place, value in roots)
        while waiting:
            place, value, depth = waiting.popleft()
            if is_a(value, types.ModuleType) or not self._is_new(value):
                continue
            if len(self.values) >= _MOST_VALUES:
                self.complete = False
                return
            if is_a(value, jax.core.Tracer):
                self.tracers[place] = value
                continue
            place, below = self._take(place, value)
            if depth < _DEEPEST:
                waiting.extend((place.child(child), child.value, depth + 1) for child in below)
            elif below:
                self.complete = False

    def _is_new(self, value: Any) -> bool:
        if type(value) in PLAIN:
            return True  # one object, such as the number 1, is in many places
        if id(value) in self._seen:
            return False
        self._seen.add(id(value))
        self._alive.append(value)
        return True

    def _take(self, place: Place, value: Any) -> tuple[Place, list[Child]]:
        """Note a value; return its place, which says if it is a library's, and its children."""
        try:
            described = describe_value(value, self._bytes)
            below = list(children(value))
            is_library = belongs_to_library(value, holder=place.library is not None)
        except Exception:  # noqa: BLE001 (the user's class may raise on any access)
            return place, []
        if described is not None:
            self.values[place] = described.key, described.text
            self._bytes -= described.digested
        if is_library:
            self.contents.extend(mutable_contents(value))
        return replace(place, library=(place.library or place) if is_library else None), below


def take_snapshot(reference: str, function: Any) -> Snapshot:
    """Return the state around a function; `reference` is its `module:qualname`."""
    found = Snapshot()
    module, _, qualname = reference.partition(":")
    owner = Place("function", f"{module}.{qualname}")
    found.add([*_globals(module), (owner, function)])
    return found


def project_modules(module: str) -> dict[str, types.ModuleType]:
    """Return the imported modules of the project that a module is part of, the module first."""
    package = module.partition(".")[0]
    names = [module, *sorted(name for name in sys.modules if name.partition(".")[0] == package)]
    found = {name: sys.modules[name] for name in names if name in sys.modules}
    # The state of installed libraries is not looked at.
    return {name: m for name, m in found.items() if "-packages" not in _file(m)}


def _globals(module: str) -> Iterator[tuple[Place, Any]]:
    for name, found in project_modules(module).items():
        yield from _variables(name, found)


def _variables(name: str, module: types.ModuleType) -> Iterator[tuple[Place, Any]]:
    for variable, value in list(instance_dict(module).items()):
        if not variable.startswith("__"):
            yield Place("global", f"{name}.{variable}"), value


def _file(module: types.ModuleType) -> str:
    return str(instance_dict(module).get("__file__") or "")
