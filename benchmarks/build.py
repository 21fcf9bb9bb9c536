"""Measure how well a build of three targets fills the CPUs: side by side against one at a time.

Compiles the same function at some sizes for a CPU, a GPU and a TPU slice that are not there, with
one compiler at a time and with one for each CPU, and nothing from the store. Utilisation is the CPU
time of all compiler processes over wall time times CPUs: with waiting, it falls. Other programs
make it fall too, and both builds alike; the speed-up is of one run. Exits 1 below the limit.

    python benchmarks/build.py [--sizes 8] [--targets cpu …] [--limit 0.6] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

from aotbuild.build.pack import build_package
from aotbuild.build.pool import usable_cpus
from aotbuild.build.progress import Event, UnitDone, UnitStarted
from aotbuild.cli.output import say
from aotbuild.cli.project import Project, open_project
from aotbuild.toolchains.environments import make_environments

_TARGETS = ("cpu", "{cuda: {gpu: h100-sxm}}", '{tpu: {topology: "v5e:1x1"}}')
_SOURCE = """
import jax, jax.numpy as jnp

def blocks(x, w):
    for _ in range(6):
        x = jax.nn.softmax(jnp.tanh(x @ w) + x, axis=-1)
        x = jnp.sort(x, axis=0)
    return x
"""
_MANIFEST = """
version: 1
package: blocks
targets: [{targets}]
functions:
  blocks:
    call: blocks.model:blocks
    args: [x: "f32[batch, 64]", w: "f32[64, 64]"]
    dims: {{batch: {sizes}}}
    verify: {{golden: never}}
"""


def open_blocks(root: Path, targets: list[str], sizes: int) -> Project:
    """Write a project with this many signatures of `blocks`, and make what compiles it ready."""
    (root / "blocks").mkdir()
    (root / "blocks" / "__init__.py").touch()
    (root / "blocks" / "model.py").write_text(_SOURCE)
    batches = [8 * (index + 1) for index in range(sizes)]
    text = _MANIFEST.format(targets=", ".join(targets), sizes=batches)
    (root / "aot.yaml").write_text(text)
    project = open_project(root / "aot.yaml", None)
    make_environments(project.plan.environment.toolchains, say)
    return project


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


def measure(project: Project, folder: Path, jobs: int) -> dict[str, float]:
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


def main() -> int:
    """Run the benchmark; return 1 if the CPUs were used less than the limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, default=8)
    parser.add_argument("--targets", nargs="+", default=list(_TARGETS))
    parser.add_argument("--limit", type=float, default=0.6)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    os.environ["AOTBUILD_STORE"] = "off"
    with tempfile.TemporaryDirectory() as folder:
        project = open_blocks(Path(folder), options.targets, options.sizes)
        alone, together = (
            measure(project, Path(folder, "out", str(jobs), "_aot"), jobs)
            for jobs in (1, usable_cpus())
        )
    result = {
        "units": len(project.plan.units),
        "alone": alone,
        "together": together,
        "speedup": alone["wall_s"] / together["wall_s"],
    }
    print(json.dumps(result) if options.json else _describe(result))
    return int(together["utilisation"] < options.limit)


def _describe(result: dict[str, Any]) -> str:
    builds = (
        f"\n  {build['jobs']} at a time: {build['wall_s']:.1f} s, "
        f"units {build['units_s']:.1f} s, CPUs used {build['utilisation']:.0%}"
        for build in (result["alone"], result["together"])
    )
    first = f"{result['units']} units, {result['speedup']:.2f} times as fast side by side"
    return first + "".join(builds)


if __name__ == "__main__":
    sys.exit(main())
