"""The feature bits of this machine's CPU, read where the operating system publishes them.

Decisions are made on bits and never on a model's name: virtual machines mask features.
"""

from __future__ import annotations

import platform
import subprocess
import sys
from functools import cache
from pathlib import Path

# macOS names its bits as Intel's manuals do; these are the ones that differ from Linux's names.
_DARWIN_NAMES = {"sse3": "pni", "cx16": "cx16", "lahf": "lahf_lm", "lzcnt": "abm", "avx1.0": "avx"}


def architecture() -> str:
    """Return `x86_64`, `aarch64`, or what the machine calls itself."""
    machine = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)


@cache
def features() -> frozenset[str]:
    """Return the CPU's features by their /proc/cpuinfo names; empty where none are published."""
    if sys.platform == "darwin":
        return _darwin_features()
    return parse_cpuinfo(_read(Path("/proc/cpuinfo")))


def parse_cpuinfo(text: str) -> frozenset[str]:
    """Return the features that every processor in a /proc/cpuinfo text has."""
    rows = [line.partition(":") for line in text.splitlines()]
    sets = [set(value.split()) for key, _, value in rows if key.strip() in ("flags", "Features")]
    return frozenset(set.intersection(*sets)) if sets else frozenset()


def _darwin_features() -> frozenset[str]:
    keys = ("machdep.cpu.features", "machdep.cpu.leaf7_features", "machdep.cpu.extfeatures")
    command = ["/usr/sbin/sysctl", "-n", *keys]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    names = (name.lower() for name in result.stdout.split())
    return frozenset(_DARWIN_NAMES.get(name, name.replace(".", "_")) for name in names)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
