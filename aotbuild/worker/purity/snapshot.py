"""Snapshots of the state around a function: what it can read beside its arguments."""

from __future__ import annotations

import itertools
import re
import sys
import types
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import jax

from aotbuild.worker.purity.caches import Contents, belongs_to_library, mutable_contents
from aotbuild.worker.purity.values import (
    CACHE_AROUND,
    PLAIN,
    Child,
    children,
    describe_value,
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

    `root` is the variable that leads there, if it is another place. `library` is the object of a
    library's that it belongs to, if any.
    """

    kind: str
    expression: str
    root: Place | None = field(default=None, compare=False)
    library: Place | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"the {self.kind} `{self.expression}`"


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
            is_library = belongs_to_library(value, holder=place.library is not None)
            place = replace(place, library=(place.library or place) if is_library else None)
            if is_library:
                self.contents.extend(mutable_contents(value))
            below = self._take(place, value)
            if depth < _DEEPEST:
                waiting.extend((_below(place, child), child.value, depth + 1) for child in below)
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

    def _take(self, place: Place, value: Any) -> list[Child]:
        """Note a value, and return its children."""
        try:
            described = describe_value(value, self._bytes)
            below = list(children(value))
        except Exception:  # noqa: BLE001 (the user's class may raise on any access)
            return []
        if described is not None:
            self.values[place] = described.key, described.text
            self._bytes -= described.digested
        return below


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
        for variable, value in list(instance_dict(found).items()):
            if not variable.startswith("__"):
                yield Place("global", f"{name}.{variable}"), value


def _below(place: Place, child: Child) -> Place:
    kind, root = child.kind or place.kind, place.root or place
    return Place(kind, f"{place.expression}{child.suffix}", root, place.library)


def _file(module: types.ModuleType) -> str:
    return str(instance_dict(module).get("__file__") or "")


_NOTHING = (None, "nothing")
# How many changes a message lists.
_MOST_SHOWN = 8
# In jax's error about using a tracer whose trace is over.
_ORIGIN = re.compile(r"created on line (.+?):(\d+)(?::\d+)? \((.+?)\)")


def describe_changes(*moments: Snapshot) -> tuple[str, ...]:
    """Return a sentence for each place whose value changed, without the places inside it.

    `moments` are the snapshots before the first trace and after each one.
    """
    found = list(_changes(moments))
    missing = len(found) - _MOST_SHOWN
    more = (f"{missing} more values changed while tracing",) if missing > 0 else ()
    return (*found[:_MOST_SHOWN], *more)


@dataclass(frozen=True)
class Leak:
    """An object that keeps values of a trace, how many, and the `file:line in function` of one.

    An argument has no line.
    """

    place: Place
    count: int
    line: str

    @property
    def values(self) -> str:
        """How many, in words."""
        return "a traced value" if self.count == 1 else f"{self.count} traced values"

    def __str__(self) -> str:
        return f"{self.place} keeps {self.values}"


def kept_tracers(before: Snapshot, after: Snapshot) -> list[Leak]:
    """Return each object that keeps traced values since the earlier snapshot.

    Tracers that were there before are another function's fault.
    """
    old = set(map(id, before.tracers.values()))
    found: dict[Place, dict[Place, Any]] = {}
    for place, tracer in after.tracers.items():
        if id(tracer) not in old:
            found.setdefault(place.root or place, {})[place] = tracer
    return [_leak(root, tracers) for root, tracers in found.items()]


def _leak(root: Place, tracers: dict[Place, Any]) -> Leak:
    places = list(tracers)
    place = places[0] if len(places) == 1 else _common(root, places)
    return Leak(place, len(places), next(filter(None, map(_origin, tracers.values())), ""))


def _common(root: Place, places: list[Place]) -> Place:
    """Return the innermost place that all of several are below."""
    texts = [place.expression for place in places]
    ends = range(len(root.expression), min(map(len, texts)) + 1)
    cuts = [n for n in ends if all(text[n:][:1] in ("", ".", "[") for text in texts)]
    same = [n for n in cuts if len({text[:n] for text in texts}) == 1]
    expression = texts[0][: max(same, default=len(root.expression))]
    return root if expression == root.expression else Place(places[0].kind, expression)


def _changes(moments: tuple[Snapshot, ...]) -> Iterator[str]:
    found: dict[Place, list[str]] = {}
    for place, words in _changed_places(moments):
        found.setdefault(place.library or place, []).append(f"{place} {words}")
    # What else changed in an object that keeps traced values is its own affair.
    keepers = {place.library for moment in moments for place in moment.tracers}
    for place, changes in found.items():
        if place not in keepers:
            several = f"{place} changed while tracing, in {len(changes)} places"
            yield changes[0] if len(changes) == 1 else several


def _changed_places(moments: tuple[Snapshot, ...]) -> Iterator[tuple[Place, str]]:
    inside_changed: list[str] = []
    tracers = {place for moment in moments for place in moment.tracers}
    for place in dict.fromkeys(place for moment in moments for place in moment.values):
        # Caches are there to be filled.
        if place.kind == CACHE_AROUND or _is_above(place, tracers):
            continue
        if place.expression.startswith(tuple(inside_changed)):
            continue
        words = _change(moments, place)
        if words:
            inside_changed += [f"{place.expression}.", f"{place.expression}["]
            yield place, words


def _is_above(place: Place, tracers: set[Place]) -> bool:
    """Return whether a place is one of a traced value, or leads to one."""
    inside = place.expression, f"{place.expression}.", f"{place.expression}["
    return any(t.expression == inside[0] or t.expression.startswith(inside[1:]) for t in tracers)


def _change(moments: tuple[Snapshot, ...], place: Place) -> str:
    # An incomplete snapshot says nothing about the places that it lacks.
    known = [m.values.get(place, _NOTHING) for m in moments if m.complete or place in m.values]
    if all(value[0] == known[0][0] for value in known):
        return ""
    words = [known[0][1]]
    for old, new in itertools.pairwise(known):
        if new[0] != old[0]:
            words.append(f"another {new[1].removeprefix('a ')}" if new[1] == old[1] else new[1])
    return f"changed while tracing: {' -> '.join(words)}"


def _origin(tracer: Any) -> str:
    """Return where a tracer was made; jax's error about using it says so."""
    try:
        jax.lax.optimization_barrier(tracer)
    except Exception as err:  # noqa: BLE001 (only its text matters)
        found = _ORIGIN.search(str(err))
        if found:
            return f"{found[1]}:{found[2]} in {found[3]}"
    return ""
