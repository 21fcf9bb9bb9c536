"""How long a large build would take on up to 256 workers: a simulation from recorded times.

The times of jobs are those that a build of this machine records in its store, and the order is
that of the build's own schedule. What else is needed is measured too, by the same build on one
Dask worker. The page of the benchmarks says what is assumed.
"""

from __future__ import annotations

import heapq
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aotbuild.build.jobs import make_jobs
from aotbuild.build.schedule import Schedule, Task
from aotbuild.store.layers import open_store
from aotbuild.store.times import times_of
from benchmarks.building.machines import cluster
from benchmarks.building.projects import build, opened, variables, write_blocks

WORKERS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_TIMES = 16


@dataclass(frozen=True)
class Costs:
    """What a build needs beside its jobs, in seconds.

    `start` is until the first job of a worker begins, `unit` what a job costs its worker more than
    a local process, `build` what the build's own process does for each, one after the other.
    """

    start: float
    unit: float
    build: float


def measure(quick: bool) -> dict[str, Any]:
    """Record times, and simulate a build of 16 times as many units."""
    units = 4 if quick else 64
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        root = write_blocks(folder / "project", units)
        local = build(root, folder / "local" / "_aot", folder / "store", jobs=1)
        tasks = _recorded(root, folder / "store")
        with cluster(folder / "dask", [None]) as executor:
            build(write_blocks(folder / "warm", 1), folder / "warm" / "_aot", "off", executor)
            dask = build(root, folder / "dask" / "_aot", "off", executor)
    seconds = [task.seconds or 0.0 for task in tasks]
    costs = Costs(
        start=max(local.seconds - sum(seconds), 0.0),
        unit=max((dask.seconds - local.seconds) / units, 0.0),
        build=dask.own_cpu / units,
    )
    many = [task for task in tasks for _ in range(_TIMES)]
    took = {workers: simulate(many, workers, costs) for workers in WORKERS}
    return {
        "units": len(many),
        "longest_s": max(seconds),
        "shortest_s": min(seconds),
        "start_s": costs.start,
        "unit_ms": costs.unit * 1000,
        "build_ms": costs.build * 1000,
        "one_measured_s": dask.seconds,
        "one_simulated_s": simulate(tasks, 1, costs),
        "took_s": {str(workers): wall for workers, wall in took.items()},
        "speedup": {str(workers): took[1] / wall for workers, wall in took.items()},
    }


def describe(row: dict[str, Any]) -> str:
    """Return what was simulated, for people."""
    lines = (
        f"\n  {workers:>3} workers: {row['took_s'][workers]:7.1f} s, "
        f"{row['speedup'][workers]:6.1f} times as fast"
        for workers in row["took_s"]
    )
    return (
        f"{row['units']} units of {row['shortest_s']:.2f} to {row['longest_s']:.2f} s; start "
        f"{row['start_s']:.1f} s, a unit costs its worker {row['unit_ms']:.0f} ms more, and the "
        f"build {row['build_ms']:.1f} ms\n"
        f"check: one worker took {row['one_measured_s']:.1f} s, simulated "
        f"{row['one_simulated_s']:.1f} s" + "".join(lines)
    )


def simulate(tasks: list[Task], workers: int, costs: Costs) -> float:
    """Return the seconds that a build of these tasks takes.

    A free worker takes the next task. What it made goes through the build's process, in the order
    in which it arrives.
    """
    schedule = Schedule(tasks)
    free = [costs.start] * workers
    arrived = []
    for _ in tasks:
        task = schedule.take(None)
        begun = heapq.heappop(free)
        ended = begun + (task.seconds or 0.0) + costs.unit
        heapq.heappush(free, ended)
        arrived.append(ended)
    done = 0.0
    for ended in sorted(arrived):
        done = max(done, ended) + costs.build
    return done


def _recorded(root: Path, store: Path) -> list[Task]:
    """Return the tasks of a project with the times that a store has."""
    tasks = [Task(*job) for job in make_jobs(opened(root).plan.units)]
    with variables(AOTBUILD_STORE=str(store)), open_store(os.environ) as layers:
        known = times_of(layers, os.environ).here(task.key for task in tasks)
    return [Task(t.settings, t.job, t.units, known[t.key]) for t in tasks]
