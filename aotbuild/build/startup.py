"""What `startup:` of a manifest means for the compiler: sets of XLA's options, and which is best.

Only options that change how matrix products are computed, not how exactly: nothing here reorders
sums beyond what another library does, and none is a "fast math". All are options of one compilation
on jaxlib 0.10.2 and 0.12.0.1, so that no process of its own is needed. What else was tried, and why
it is not here: docs/decisions/0020-startup.md.
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
# All sets were tried on 0.10.2 and 0.12.0.1, the empty one on 0.11.2 and 0.12.0 too. XLA refuses
# to compile with an option that it does not know.
_KNOWN = "0.10.2", "0.13"
_LIBRARY = "xla_cpu_experimental_ynn_fusion_type"


@dataclass(frozen=True)
class FlagSet:
    """Options of XLA under a name."""

    name: str
    options: tuple[tuple[str, str], ...] = ()


# As XLA has it: YNN computes matrix products, and builds a pipeline for each at the first call.
STEADY = FlagSet("steady")
# Without YNN there is nothing to build.
FAST = FlagSet("fast", ((_LIBRARY, ""),))
# YNN for products alone: no elementwise work is fused into its pipelines.
PRODUCTS = FlagSet("products", ((_LIBRARY, "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT"),))
CANDIDATES = (STEADY, PRODUCTS, FAST)


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


def choice(mode: str, platform: str, jaxlib: str, obstacle: str | None = None) -> Choice:
    """Return what `mode` is for a platform and a jaxlib.

    `obstacle` is why executables of this unit cannot be measured, if they cannot.
    """
    if platform != "cpu" or mode == "steady":
        return Choice("steady", (STEADY,))
    if not _is_known(jaxlib):
        note = f"startup: {mode} is not known for jaxlib {jaxlib}: compiled as startup: steady"
        return Choice(mode, (STEADY,), note)
    if mode == "fast":
        return Choice(mode, (FAST,))
    if obstacle:
        note = f"startup: tuned: {obstacle}, so nothing was measured: compiled as startup: steady"
        return Choice(mode, (STEADY,), note)
    return Choice(mode, CANDIDATES)


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


def untouched(mode: str, platform: str) -> str | None:
    """Return what the plan says of a platform that `startup:` does nothing for."""
    if mode == "steady" or platform == "cpu":
        return None
    return f"startup: {mode} changes executables for CPUs only; those for {platform} stay the same"


def _is_known(jaxlib: str) -> bool:
    return is_between(jaxlib, *_KNOWN)
