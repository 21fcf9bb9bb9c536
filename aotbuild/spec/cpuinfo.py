"""The feature bits of this machine's CPU, as the CPU and the operating system tell them.

Decisions are made on bits and never on a model's name: virtual machines mask features.
"""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

from aotbuild.spec import cpuid


def architecture() -> str:
    """Return `x86_64`, `aarch64`, or what the machine calls itself."""
    machine = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)


@cache
def features() -> frozenset[str]:
    """Return the features that a program can use here, by their /proc/cpuinfo names.

    Empty where nothing tells. Only x86-64 levels need features: elsewhere than on Linux they are
    refused, aarch64 is not.
    """
    return usable_features(cpuid.read(), parse_cpuinfo(_read(Path("/proc/cpuinfo"))))


def usable_features(asked: cpuid.Cpuid | None, listed: frozenset[str]) -> frozenset[str]:
    """Return what can be used, of what CPUID says and what /proc/cpuinfo lists.

    Where both tell of one CPU, a feature must be in both, and what CPUID was not asked for is taken
    from the list. A list with more than the CPU has is that of another machine, as under qemu-user.
    """
    if asked is None:
        return listed
    if not listed or not (listed & cpuid.NAMES) <= asked.present:
        return asked.active
    return (asked.active & listed) | (listed - cpuid.NAMES)


def parse_cpuinfo(text: str) -> frozenset[str]:
    """Return the features that every processor in a /proc/cpuinfo text has."""
    # Of 64 processors 64 lines are one.
    lines = {line for line in text.splitlines() if line.startswith(("flags", "Features"))}
    rows = [line.partition(":") for line in lines]
    sets = [set(value.split()) for key, _, value in rows if key.strip() in ("flags", "Features")]
    return frozenset(set.intersection(*sets)) if sets else frozenset()


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("ascii", "replace")
    except OSError:
        return ""
