"""CPU instruction-set levels, as sets of features, and the choice of the best one for a host.

Levels above the baseline are those of the x86-64 psABI (x86-64-ABI 1.0, table 3.1:
Micro-Architecture Levels). `x86-64-v2+avx` is the floor that jaxlib itself needs: below AVX it
refuses to import.
Feature names are those of /proc/cpuinfo on Linux.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

_V2_AVX = frozenset({"cx16", "lahf_lm", "popcnt", "pni", "ssse3", "sse4_1", "sse4_2", "avx"})
_V3 = _V2_AVX | {"avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"}
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}


@dataclass(frozen=True)
class IsaLevel:
    """One level: its name, architecture, the features it needs, and XLA's name for the cap."""

    name: str
    architecture: str
    features: frozenset[str]
    xla_max_isa: str | None


# Ordered from low to high within an architecture. The caps are values of the process-wide flag
# --xla_cpu_max_isa (xla/service/cpu/cpu_compiler.cc); tried on jaxlib 0.10.2 and 0.12.0.1.
LEVELS = {
    level.name: level
    for level in (
        IsaLevel("x86-64-v2+avx", "x86_64", _V2_AVX, "AVX"),
        IsaLevel("x86-64-v3", "x86_64", _V3, "AVX2"),
        IsaLevel("x86-64-v4", "x86_64", _V4, "AVX512"),
        IsaLevel("aarch64", "aarch64", frozenset(), None),
    )
}


def level_of(name: str) -> IsaLevel:
    """Return the level of that name; ValueError lists the known ones."""
    if name not in LEVELS:
        msg = f"unknown ISA level {name!r}; known: {', '.join(LEVELS)}"
        raise ValueError(msg)
    return LEVELS[name]


def missing_features(name: str, architecture: str, features: AbstractSet[str]) -> tuple[str, ...]:
    """Return what a host lacks for a level, sorted; it may be the architecture itself."""
    level = level_of(name)
    if level.architecture != architecture:
        return (level.architecture,)
    return tuple(sorted(level.features - features))


def best_level(architecture: str, features: AbstractSet[str]) -> str | None:
    """Return the highest level that a host satisfies, or None."""
    fitting = [name for name in LEVELS if not missing_features(name, architecture, features)]
    return fitting[-1] if fitting else None


def rank(name: str) -> int:
    """Return the place of a level in the order from low to high."""
    return list(LEVELS).index(name)


def missing_level_reason(name: str, architecture: str, best: str) -> str | None:
    """Return why a machine whose best level is `best` cannot make code for level `name`."""
    level = level_of(name)
    if level.architecture != architecture:
        return f"ISA level {name} is for {level.architecture}, this machine is {architecture}"
    if rank(name) > rank(best):
        return f"ISA level {name} is above this machine's {best}; build on a machine that has it"
    return None
