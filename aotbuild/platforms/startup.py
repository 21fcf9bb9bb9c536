"""Startup modes: sets of compiler options for `startup:`, and the choice of the best. Pure.

Each platform has its own sets. Options may change how a result is computed, but not how exactly:
none reorders sums beyond what another library does, and none is a "fast math". All are options of
one compilation, so they need no process of their own (docs/decisions/15-thunk-rewrite.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from packaging.version import InvalidVersion, Version


def is_between(jaxlib: str, first: str, end: str) -> bool:
    """Return whether a version is `first` or later, and before `end` and all its prereleases."""
    try:
        version = Version(jaxlib)
    except InvalidVersion:
        return False
    return Version(first) <= version and version.release < Version(end).release


MODES = ("steady", "fast", "tuned")
# How much slower than the best steady state a set may be to be chosen for its start.
SLOWER_AT_MOST = 1.10


@dataclass(frozen=True)
class FlagSet:
    """A named set of XLA options."""

    name: str
    options: tuple[tuple[str, str], ...] = ()


# The compiler's own choice.
STEADY = FlagSet("steady")


@dataclass(frozen=True)
class StartupSets:
    """The sets of a platform: the fastest start, and the candidates of `tuned`.

    The sets are known for versions of jaxlib from `first` up to, but not including, `end`.
    """

    fast: FlagSet
    candidates: tuple[FlagSet, ...]
    first: str
    end: str


@dataclass(frozen=True)
class Figures:
    """Medians of loading, first call and later calls, in milliseconds."""

    load: float
    first: float
    steady: float

    def to_json(self) -> dict[str, float]:
        """Return the JSON form, as a record keeps it."""
        return {"load_ms": self.load, "first_ms": self.first, "steady_ms": self.steady}


@dataclass(frozen=True)
class Choice:
    """The sets for a unit: one, or several to measure. `note` is for the user."""

    mode: str
    sets: tuple[FlagSet, ...]
    note: str | None = None

    def identity(self) -> dict[str, Any]:
        """Return what decides the bytes, for the store's key."""
        sets = [[flags.name, *map(list, flags.options)] for flags in self.sets]
        return {"mode": self.mode, "sets": sets, "slower_at_most": SLOWER_AT_MOST}


def choice(mode: str, sets: StartupSets | None, jaxlib: str, obstacle: str | None = None) -> Choice:
    """Return the choice for `mode`, for a platform with these sets (or None) and a jaxlib.

    `obstacle` says why executables of this unit cannot be measured, if they cannot.
    """
    if sets is None or mode == "steady":
        return Choice("steady", (STEADY,))
    if not is_between(jaxlib, sets.first, sets.end):
        note = f"startup: {mode} is not known for jaxlib {jaxlib}: compiled as startup: steady"
        return Choice(mode, (STEADY,), note)
    if mode == "fast":
        return Choice(mode, (sets.fast,))
    if obstacle:
        note = f"startup: tuned: {obstacle}, so nothing was measured: compiled as startup: steady"
        return Choice(mode, (STEADY,), note)
    return Choice(mode, sets.candidates)


def best(figures: Sequence[Figures | None]) -> int | None:
    """Return the index of the set to keep; None without any figures.

    It has the fastest load and first call of those whose steady state is within `SLOWER_AT_MOST` of
    the best. The first of equals wins. None in `figures` is not considered.
    """
    measured = [(index, item) for index, item in enumerate(figures) if item is not None]
    if not measured:
        return None
    limit = SLOWER_AT_MOST * min(item.steady for _, item in measured)
    fitting = [(item.load + item.first, index) for index, item in measured if item.steady <= limit]
    return min(fitting)[1]
