"""What this machine's CPU can do: feature bits, as the CPU and the operating system report them.

Decisions are made on bits and never on a model's name: virtual machines mask features. The CPUID
instruction is asked through glibc (2.33 and later), which asks once per process and answers by a
public function (`<sys/platform/x86.h>`, `__x86_get_cpuid_feature_leaf`). It is true where
/proc/cpuinfo is not: under qemu-user, that file shows the machine outside.
"""

from __future__ import annotations

import ctypes
import importlib
import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from aotbuild.platforms.base import HostPart, Kernels, Machine
from aotbuild.platforms.cpu.checks import LEVELS, best_level, missing_features


def architecture() -> str:
    """Return `x86_64`, `aarch64`, or what the machine calls itself."""
    machine = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)


@cache
def features() -> frozenset[str]:
    """Return the features that a program can use here, by their /proc/cpuinfo names.

    Empty if unknown. Only x86-64 levels need features, so they are refused outside of Linux;
    aarch64 is not.
    """
    return usable_features(read_cpuid(), parse_cpuinfo(_text(Path("/proc/cpuinfo"))))


def usable_features(asked: Cpuid | None, listed: frozenset[str]) -> frozenset[str]:
    """Return what can be used, of what CPUID says and what /proc/cpuinfo lists.

    If both describe one CPU, a feature must be in both; features that CPUID is not asked for come
    from the list. A list with more than the CPU has is that of another machine, as under qemu-user.
    """
    if asked is None:
        return listed
    if not listed or not (listed & _ASKED) <= asked.present:
        return asked.active
    return (asked.active & listed) | (listed - _ASKED)


def parse_cpuinfo(text: str) -> frozenset[str]:
    """Return the features that every processor in a /proc/cpuinfo text has."""
    # Of 64 processors 64 lines are one.
    lines = {line for line in text.splitlines() if line.startswith(("flags", "Features"))}
    rows = [line.partition(":") for line in lines]
    sets = [set(value.split()) for key, _, value in rows if key.strip() in ("flags", "Features")]
    return frozenset(set.intersection(*sets)) if sets else frozenset()


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("ascii", "replace")
    except OSError:
        return ""


# glibc's index of a leaf and the register, 0 to 3 for EAX to EDX: bit number and name, as
# /proc/cpuinfo writes it. Bits: Intel SDM volume 2A, CPUID, and AMD APM volume 3, appendix E.
# Indices: enum in sysdeps/x86/sys/platform/x86.h of glibc.
_BITS: dict[tuple[int, int], dict[int, str]] = {
    # Leaf 1
    (0, 2): {
        0: "pni",
        1: "pclmulqdq",
        9: "ssse3",
        12: "fma",
        13: "cx16",
        19: "sse4_1",
        20: "sse4_2",
        22: "movbe",
        23: "popcnt",
        25: "aes",
        26: "xsave",
        28: "avx",
        29: "f16c",
        30: "rdrand",
    },
    # Leaf 7
    (1, 1): {
        3: "bmi1",
        5: "avx2",
        8: "bmi2",
        11: "rtm",
        16: "avx512f",
        17: "avx512dq",
        18: "rdseed",
        19: "adx",
        21: "avx512ifma",
        23: "clflushopt",
        24: "clwb",
        28: "avx512cd",
        29: "sha_ni",
        30: "avx512bw",
        31: "avx512vl",
    },
    (1, 2): {
        1: "avx512vbmi",
        6: "avx512_vbmi2",
        8: "gfni",
        9: "vaes",
        10: "vpclmulqdq",
        11: "avx512_vnni",
        12: "avx512_bitalg",
        14: "avx512_vpopcntdq",
        22: "rdpid",
        27: "movdiri",
        28: "movdir64b",
    },
    (1, 3): {
        8: "avx512_vp2intersect",
        14: "serialize",
        22: "amx_bf16",
        23: "avx512_fp16",
        24: "amx_tile",
        25: "amx_int8",
    },
    # Leaf 0x80000001
    (2, 2): {
        0: "lahf_lm",
        5: "abm",
        6: "sse4a",
        8: "3dnowprefetch",
        11: "xop",
        16: "fma4",
        21: "tbm",
    },
    # Leaf 0xD, subleaf 1
    (3, 0): {0: "xsaveopt", 1: "xsavec"},
    # Leaf 7, subleaf 1
    (6, 0): {0: "sha512", 4: "avx_vnni", 5: "avx512_bf16", 21: "amx_fp16", 23: "avx_ifma"},
}

_ASKED = frozenset(name for bits in _BITS.values() for name in bits.values())


class _Leaf(ctypes.Structure):
    """`struct cpuid_feature`: EAX to EDX as the CPU has them, and as they can be used."""

    _fields_ = (("present", ctypes.c_uint32 * 4), ("active", ctypes.c_uint32 * 4))


@dataclass(frozen=True)
class Cpuid:
    """Feature names: those that the CPU has, and of them those that a program can use."""

    present: frozenset[str]
    active: frozenset[str]


def read_cpuid(library: Any = None) -> Cpuid | None:
    """Return what glibc found out, or None where there is no such glibc or no x86-64 CPU.

    `library` is the loaded C library, by default that of this process.
    """
    leaf = _leaf_function(library)
    if leaf is None:
        return None
    present: list[str] = []
    active: list[str] = []
    for (index, register), bits in _BITS.items():
        found = leaf(index)
        if found:
            present += _names(found.contents.present[register], bits)
            active += _names(found.contents.active[register], bits)
    return Cpuid(frozenset(present), frozenset(active))


def _leaf_function(library: Any) -> Callable[[int], Any] | None:
    if library is None:
        if sys.platform != "linux" or platform.machine() != "x86_64":
            return None
        library = ctypes.CDLL(None)
    function = getattr(library, "__x86_get_cpuid_feature_leaf", None)
    if function is None:
        return None
    function.argtypes, function.restype = [ctypes.c_uint], ctypes.POINTER(_Leaf)
    return function  # type: ignore[no-any-return]


def _names(value: int, bits: dict[int, str]) -> Iterator[str]:
    return (name for bit, name in bits.items() if value >> bit & 1)


def next_level(architecture: str, features: frozenset[str]) -> tuple[str, tuple[str, ...]] | None:
    """Return the lowest level that a CPU does not reach and the features it lacks for it."""
    for name, level in LEVELS.items():
        if level.architecture == architecture:
            missing = missing_features(name, architecture, features)
            if missing:
                return name, missing
    return None


class Cpu(HostPart):
    """See `HostPart`."""

    xla_name = "Host"

    def machine(self) -> Machine:
        """Return what is true of this machine, whatever its other devices are."""
        here, known = architecture(), features()
        return Machine(here, known, best_level(here, known), next_level(here, known))

    def kernels(self) -> Iterator[Kernels]:
        """Yield LAPACK's, and those of `jax.experimental.sparse`, which `import jax` leaves out.

        `initialize` binds LAPACK's to scipy's; one that is called before segfaults. Tried on jaxlib
        0.10.2 and 0.12.0.1, which have no other module of them.
        """
        for name in ("_lapack", "_sparse"):
            yield Kernels.of(importlib.import_module(f"jaxlib.cpu.{name}"))


PLATFORM = Cpu()
