"""What `startup:` of a manifest means for a compiler: sets of its options, and which is best. Pure.

A platform says which sets it has. Options may change how a result is computed, not how exactly:
none reorders sums beyond what another library does, and none is a "fast math". All are options of
one compilation, so that no process of its own is needed (docs/decisions/0020-startup.md).
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
# Of the best steady state, what a set may cost to be taken for its start.
SLOWER_AT_MOST = 1.10


@dataclass(frozen=True)
class FlagSet:
    """Options of XLA under a name."""

    name: str
    options: tuple[tuple[str, str], ...] = ()


# The compiler's own choice.
STEADY = FlagSet("steady")


@dataclass(frozen=True)
class StartupSets:
    """The sets of a platform: the one for the fastest start, and all that `tuned` measures.

    `first` and `end` are versions of jaxlib: the sets are known from the first on, up to but not
    including the other.
    """

    fast: FlagSet
    candidates: tuple[FlagSet, ...]
    first: str
    end: str


@dataclass(frozen=True)
class Figures:
    """How an executable starts and runs, in milliseconds: medians."""

    load: float
    first: float
    steady: float

    def to_json(self) -> dict[str, float]:
        """Return the JSON form, as a record keeps it."""
        return {"load_ms": self.load, "first_ms": self.first, "steady_ms": self.steady}


@dataclass(frozen=True)
class Choice:
    """What a unit is compiled with: one set, or several to choose from. `note` is for people."""

    mode: str
    sets: tuple[FlagSet, ...]
    note: str | None = None

    def identity(self) -> dict[str, Any]:
        """Return what decides the bytes, as the store's key wants it."""
        sets = [[flags.name, *map(list, flags.options)] for flags in self.sets]
        return {"mode": self.mode, "sets": sets, "slower_at_most": SLOWER_AT_MOST}


def choice(mode: str, sets: StartupSets | None, jaxlib: str, obstacle: str | None = None) -> Choice:
    """Return what `mode` is for a platform with these sets, or without any, and a jaxlib.

    `obstacle` is why executables of this unit cannot be measured, if they cannot.
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
    """Return the index of the set to keep; None where there are no figures at all.

    It is the one that loads and answers first soonest, of those whose steady state is within
    `SLOWER_AT_MOST` of the best one. Of equals the first. None in `figures` is out of the running.
    """
    measured = [(index, item) for index, item in enumerate(figures) if item is not None]
    if not measured:
        return None
    limit = SLOWER_AT_MOST * min(item.steady for _, item in measured)
    fitting = [(item.load + item.first, index) for index, item in measured if item.steady <= limit]
    return min(fitting)[1]
