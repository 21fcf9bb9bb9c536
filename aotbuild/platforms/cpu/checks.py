"""The ISA check: levels of CPU instruction sets, and whether a CPU has what an executable uses.

`x86-64-v3` and `x86-64-v4` are those of the x86-64 psABI (x86-64-ABI 1.0, table 3.1:
Micro-Architecture Levels). `x86-64-v2+avx` is the floor that jaxlib itself needs before 0.12:
below AVX it refuses to import. What is above `x86-64-v4` are the steps that XLA:CPU knows, in its
order: Cascade Lake has the first, Cooper Lake and Zen 4 the second, Sapphire Rapids the third.
Feature names are those of /proc/cpuinfo on Linux.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from aotbuild.format.record import Record
from aotbuild.format.target import Target
from aotbuild.platforms.base import Checks, Host, check_plugin

_V2_AVX = frozenset({"cx16", "lahf_lm", "popcnt", "pni", "ssse3", "sse4_1", "sse4_2", "avx"})
_V3 = _V2_AVX | {"avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"}
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
# What jaxlib needs from 0.12 on.
_OF_JAXLIB = frozenset({"avx2", "bmi2", "f16c", "fma"})
_VNNI = _V4 | {"avx512_vnni"}
_BF16 = _VNNI | {"avx512_bf16"}
_AMX = _BF16 | {"amx_tile", "amx_int8", "amx_bf16"}


@dataclass(frozen=True)
class IsaLevel:
    """One level: its name, architecture, the features it needs, and what compilers call it.

    `xla_max_isa` is XLA's name for the cap that lets a process compile for no higher level.
    `llvm_cpu` and `llvm_features` are LLVM's, to compile for exactly this level on any machine.
    """

    name: str
    architecture: str
    features: frozenset[str]
    xla_max_isa: str | None
    llvm_cpu: str
    llvm_features: str = ""


# Ordered from low to high within an architecture. The caps are values of the process-wide flag
# --xla_cpu_max_isa (xla/service/cpu/cpu_compiler.cc); tried on jaxlib 0.10.2 and 0.12.0.1. LLVM's
# names tried on 0.12.0.1, but for aarch64. It kills the process over a CPU that it does not know.
LEVELS = {
    level.name: level
    for level in (
        IsaLevel("x86-64-v2+avx", "x86_64", _V2_AVX, "AVX", "x86-64-v2", "+avx"),
        IsaLevel("x86-64-v3", "x86_64", _V3, "AVX2", "x86-64-v3"),
        IsaLevel("x86-64-v4", "x86_64", _V4, "AVX512", "x86-64-v4"),
        IsaLevel("x86-64-v4+vnni", "x86_64", _VNNI, "AVX512_VNNI", "x86-64-v4", "+avx512vnni"),
        IsaLevel(
            "x86-64-v4+bf16", "x86_64", _BF16, "AVX512_BF16", "x86-64-v4", "+avx512vnni,+avx512bf16"
        ),
        IsaLevel(
            "x86-64-v4+amx",
            "x86_64",
            _AMX,
            "AMX",
            "x86-64-v4",
            "+avx512vnni,+avx512bf16,+amx-tile,+amx-int8,+amx-bf16",
        ),
        IsaLevel("aarch64", "aarch64", frozenset(), None, "generic"),
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


def missing_level_reason(name: str, architecture: str, best: str | None) -> str | None:
    """Return why code for level `name` cannot be made by a machine of that architecture.

    `best` is the highest level that it can make, None where it can make any of its architecture.
    """
    level = level_of(name)
    if level.architecture != architecture:
        return f"ISA level {name} is for {level.architecture}, this machine is {architecture}"
    if best is not None and rank(name) > rank(best):
        return (
            f"ISA level {name} is above this machine's {best}; build on a machine that has it, or "
            "with jax 0.11.2 or later, which can on any"
        )
    return None


# --- checks -------------------------------------------------------------------------------------


def check_isa(record: Record, host: Host) -> str | None:
    isa = record.requires.isa
    if isa is None:
        return None
    if isa not in LEVELS:
        return f"isa: {isa} is unknown to this aotbuild"
    missing = missing_features(isa, host.architecture, host.features)
    if not missing:
        return None
    if not host.features and LEVELS[isa].architecture == host.architecture:
        return f"isa: {isa} needs {', '.join(missing)}; this system does not say what its CPU has"
    return f"isa: {isa} needs {', '.join(missing)}, which this CPU ({host.architecture}) lacks"


def check_features(record: Record, host: Host) -> str | None:
    missing = sorted(set(record.requires.features) - host.features)
    return (
        f"features: the code uses {', '.join(missing)}, which this CPU lacks" if missing else None
    )


def better_isa(record: Record, host: Host) -> str | None:
    best = best_level(host.architecture, host.features)
    return None if record.requires.isa in (None, best) else f"this CPU could use {best}"


class CpuChecks(Checks):
    """See `Checks`."""

    required = (check_isa, check_features, check_plugin)
    better = (better_isa,)
    device_hint = " (XLA_FLAGS=--xla_force_host_platform_device_count={needed} makes more)"

    def check_target(self, target: Target) -> None:
        level_of(target.detail)

    def missing_for_jaxlib(
        self, version: str, architecture: str, features: AbstractSet[str]
    ) -> tuple[str, ...]:
        """Return what a CPU lacks for a version of jaxlib, which then refuses to be imported.

        See jaxlib/cpu_feature_guard.c; read in 0.11.2 and 0.12.0.1. Empty if nothing is known.
        """
        if architecture != "x86_64" or not features:
            return ()
        numbers = [int(part) for part in version.split(".")[:2] if part.isdecimal()]
        return tuple(sorted((_OF_JAXLIB if numbers >= [0, 12] else {"avx"}) - features))

    def rank(self, detail: str) -> int:
        return rank(detail) if detail in LEVELS else -1

    def preference(self, record: Record) -> tuple[int, int]:
        return -1 - self.rank(record.requires.isa or ""), -len(record.requires.features)


PLATFORM = CpuChecks()
