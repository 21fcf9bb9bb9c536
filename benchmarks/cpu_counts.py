"""Measure executables that were built for several numbers of CPUs, on one CPU and on all of them.

Each figure is the least time of a call, in microseconds, and the CPU time of that call. A process
for each number of CPUs of the host loads the executables of all builds, which take turns.

    python benchmarks/cpu_counts.py [--cpus 1 2 4 16 64] [--rounds 20] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from small_package import build_package

_SOURCE = """
import jax


def scale(x):
    return x * 2.0 + 1.0


def gelu(x):
    return jax.nn.gelu(x)


def steps(x):
    y = x
    for _ in range(40):
        y = y * x + 0.5
    return y
"""
_SIZES = (256, 4096)
_ARGS = 'args: [x: "f32[rows,1024]"], dims: {rows: [256, 4096]}, verify: {golden: never}'
_FUNCTIONS = ("scale", "gelu", "steps")

Row = dict[str, Any]


def main() -> None:
    """Build, measure, and print a row for each function, size and host."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cpus", type=int, nargs="+", default=[1, 2, 4, 16, 64])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(_child([Path(folder) for folder in options.child], options.rounds)))
        return
    for row in measure(options.cpus, options.rounds):
        print(json.dumps(row) if options.json else _describe(row))


def measure(built_for: list[int], rounds: int) -> list[Row]:
    """Return the rows; each has the figures of all builds by their number of CPUs."""
    with tempfile.TemporaryDirectory() as name:
        folders = [_build(Path(name, str(cpus)), cpus) for cpus in built_for]
        here = sorted(os.sched_getaffinity(0))
        rows = []
        for host in sorted({1, len(here)}):
            command = [sys.executable, __file__, "--rounds", str(rounds), "--child", *folders]
            affinity = ",".join(map(str, here[:host]))
            done = subprocess.run(
                ["taskset", "-c", affinity, *command], capture_output=True, text=True, check=True
            )
            found = json.loads(done.stdout.splitlines()[-1])
            rows += [
                {
                    "host": host,
                    "function": function,
                    "rows": size,
                    "built for": dict(zip(map(str, built_for), figures, strict=True)),
                }
                for (function, size), figures in zip(_calls(), found, strict=True)
            ]
        return rows


def _build(folder: Path, cpus: int) -> str:
    functions = "\n".join(
        f'  {name}: {{call: "loops.model:{name}", {_ARGS}}}' for name in _FUNCTIONS
    )
    manifest = (
        f"version: 1\npackage: loops\ntargets: [cpu: {{cpus: {cpus}}}]\nfunctions:\n{functions}\n"
    )
    folder.mkdir()
    return str(build_package(folder, "loops", _SOURCE, manifest))


def _calls() -> list[tuple[str, int]]:
    return [(function, size) for function in _FUNCTIONS for size in _SIZES]


def _child(folders: list[Path], rounds: int) -> list[list[list[float]]]:
    """Return for each call the least time and its CPU time, in microseconds, of each folder."""
    import jax
    import numpy as np

    import aotbuild

    libraries = [aotbuild.load(folder) for folder in folders]
    found = []
    for function, size in _calls():
        array = jax.device_put(np.ones((size, 1024), np.float32))
        kernels = [getattr(library, function) for library in libraries]
        times: list[list[tuple[float, float]]] = [[] for _ in kernels]
        repeats = 20 if size < 1000 else 5
        for number in range(rounds + 1):
            for kernel, mine in zip(kernels, times, strict=True):
                wall, cpu = perf_counter(), process_time()
                for _ in range(repeats):
                    jax.block_until_ready(kernel(array))
                spent = perf_counter() - wall, process_time() - cpu
                if number:
                    mine.append(spent)
        found.append([[1e6 * part / repeats for part in min(mine)] for mine in times])
    return found


def _describe(row: Row) -> str:
    figures = ", ".join(
        f"{cpus}: {wall:.0f} us ({cpu:.0f} of CPU)"
        for cpus, (wall, cpu) in row["built for"].items()
    )
    call = f"{row['function']} of f32[{row['rows']},1024]"
    return f"{call} on {row['host']} CPU{'s' if row['host'] > 1 else ''}, built for {figures}"


if __name__ == "__main__":
    main()
