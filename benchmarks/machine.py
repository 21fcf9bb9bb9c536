"""What the figures depend on: the machine, and the versions that were measured."""

from __future__ import annotations

import os
import platform
from datetime import date
from pathlib import Path


def describe_machine() -> dict[str, str | int]:
    """Return processor, CPUs, memory, system, Python and the day."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "processor": _processor(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_gb": round(pages / 1e9),
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        "python": platform.python_version(),
        "date": date.today().isoformat(),
    }


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def versions_in(environment: Path) -> dict[str, str]:
    """Return the versions of what an environment has installed, by name of the distribution."""
    found = {}
    for folder in environment.glob("lib/python*/site-packages/*.dist-info"):
        name, _, version = folder.name.removesuffix(".dist-info").partition("-")
        found[name.replace("_", "-").lower()] = version
    return dict(sorted(found.items()))
