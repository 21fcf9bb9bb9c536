"""What tracing changed around a function: values, and traced values that something keeps."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax

from aotbuild.worker.purity.snapshot import Place, Snapshot
from aotbuild.worker.purity.values import CACHE_AROUND

_NOTHING = (None, "nothing")
# How many changes a message lists.
_MOST_SHOWN = 8
# In jax's error about using a tracer whose trace is over.
_ORIGIN = re.compile(r"created on line (.+?):(\d+)(?::\d+)? \((.+?)\)")


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
            *_, variable = place.path()
            found.setdefault(variable, {})[place] = tracer
    return [_leak(tracers) for tracers in found.values()]


def _leak(tracers: dict[Place, Any]) -> Leak:
    paths = [list(place.path()) for place in tracers]
    place = next(place for place in paths[0] if all(place in path for path in paths))
    return Leak(place, len(tracers), next(filter(None, map(_origin, tracers.values())), ""))


def _origin(tracer: Any) -> str:
    """Return where a tracer was made; jax's error about using it says so."""
    try:
        jax.lax.optimization_barrier(tracer)
    except Exception as err:  # noqa: BLE001 (only its text matters)
        found = _ORIGIN.search(str(err))
        if found:
            return f"{found[1]}:{found[2]} in {found[3]}"
    return ""


def describe_changes(*moments: Snapshot) -> tuple[str, ...]:
    """Return a sentence for each place whose value changed, without the places inside it.

    `moments` are the snapshots before the first trace and after each one.
    """
    found = list(_changes(moments))
    missing = len(found) - _MOST_SHOWN
    more = (f"{missing} more values changed while tracing",) if missing > 0 else ()
    return (*found[:_MOST_SHOWN], *more)


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
    to_tracers = {p for moment in moments for tracer in moment.tracers for p in tracer.path()}
    changed: set[Place] = set()
    for place in dict.fromkeys(place for moment in moments for place in moment.values):
        # Caches are there to be filled.
        if place.kind == CACHE_AROUND or place in to_tracers:
            continue
        if changed.isdisjoint(place.path()) and (words := _change(moments, place)):
            changed.add(place)
            yield place, words


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
