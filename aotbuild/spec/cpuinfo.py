"""The feature bits of this machine's CPU, read where the operating system publishes them.

Decisions are made on bits and never on a model's name: virtual machines mask features.
"""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path


def architecture() -> str:
    """Return `x86_64`, `aarch64`, or what the machine calls itself."""
    machine = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)


@cache
def features() -> frozenset[str]:
    """Return the CPU's features by their /proc/cpuinfo names; empty where there is no such file.

    Only x86-64 levels need features: elsewhere than on Linux they are refused, aarch64 is not.
    """
    return parse_cpuinfo(_read(Path("/proc/cpuinfo")))


def parse_cpuinfo(text: str) -> frozenset[str]:
    """Return the features that every processor in a /proc/cpuinfo text has."""
    rows = [line.partition(":") for line in text.splitlines()]
    sets = [set(value.split()) for key, _, value in rows if key.strip() in ("flags", "Features")]
    return frozenset(set.intersection(*sets)) if sets else frozenset()


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
