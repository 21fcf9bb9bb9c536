"""How well a build fills the CPUs: compilers side by side, against one at a time.

Compiles a function at some sizes, with one compiler at a time and with one for each CPU, and
nothing from the store. Utilisation is the CPU time of all compiler processes over wall time times
CPUs: with waiting, it falls. Other programs make it fall too, and both builds alike.
"""

from __future__ import annotations

import resource
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

from aotbuild.build.events import Event, UnitDone, UnitStarted
from aotbuild.build.pack import build_package
from aotbuild.build.pool import usable_cpus
from aotbuild.build.project import Project
from benchmarks.building.projects import opened, variables, write_blocks


class Stopwatch:
    """Hears the events of a build and adds up how long its units took."""

    def __init__(self) -> None:
        self._started: dict[int, float] = {}
        self.seconds = 0.0

    def __call__(self, event: Event) -> None:
        """Take an event; each unit is one key, so threads do not meet."""
        if isinstance(event, UnitStarted):
            self._started[id(event.unit)] = perf_counter()
        elif isinstance(event, UnitDone) and event.failure is None:
            self.seconds += perf_counter() - self._started[id(event.unit)]


def measure(quick: bool) -> dict[str, Any]:
    """Build both ways."""
    units = 2 if quick else 8
    with tempfile.TemporaryDirectory() as folder, variables(AOTBUILD_STORE="off"):
        project = opened(write_blocks(Path(folder, "project"), units))
        alone, together = (
            _built(project, Path(folder, "out", str(jobs), "_aot"), jobs)
            for jobs in (1, usable_cpus())
        )
    speedup = alone["wall_s"] / together["wall_s"]
    return {"units": units, "alone": alone, "together": together, "speedup": speedup}


def _built(project: Project, folder: Path, jobs: int) -> dict[str, float]:
    """Build once; return wall time, the sum of the units' times, and utilisation of the CPUs."""
    watch, cpu, start = Stopwatch(), _cpu_seconds(), perf_counter()
    build_package(project.plan, project.sources, folder, watch, jobs)
    wall = perf_counter() - start
    used = _cpu_seconds() - cpu
    return {
        "jobs": jobs,
        "wall_s": wall,
        "units_s": watch.seconds,
        "cpu_s": used,
        "utilisation": used / (wall * min(jobs, usable_cpus())),
    }


def _cpu_seconds() -> float:
    """Return the CPU time of all processes that this one started and that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def describe(row: dict[str, Any]) -> str:
    """Return what was measured, for people."""
    builds = (
        f"\n  {each['jobs']} at a time: {each['wall_s']:.1f} s, "
        f"units {each['units_s']:.1f} s, CPUs used {each['utilisation']:.0%}"
        for each in (row["alone"], row["together"])
    )
    first = f"{row['units']} units, {row['speedup']:.2f} times as fast side by side"
    return first + "".join(builds)
