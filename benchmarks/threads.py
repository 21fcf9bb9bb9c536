"""Measure calls a second from 1 to 8 threads: a kernel of either backend against jax.jit.

Threads start together and call for a fixed number of times; the function is small, so that
dispatch is most of it. Systems take turns in each round; medians are printed. What is expected is
that threads cost a kernel no more than they cost jit: Python's lock is held in both.

    python benchmarks/threads.py [--threads 1 2 4 8] [--rounds 9] [--backends jax numpy] [--json]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import jax
import numpy as np
from dispatch import affine, build

import aotbuild

_CALLS = 16000
_SIZE = 1


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--backends", nargs="+", choices=["jax", "numpy"], default=["jax", "numpy"])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        systems = make_systems(build(Path(folder), _SIZE), options.backends)
        for row in measure(systems, options.threads, options.rounds):
            print(json.dumps(row) if options.json else _describe(row), flush=True)
    return 0


def make_systems(package: Path, backends: list[str]) -> dict[str, Callable[[], Any]]:
    """Return calls without arguments: each backend's, and jit's with the same kind of arrays."""
    array, jitted = np.arange(_SIZE, dtype="float32"), jax.jit(affine)
    on_device = jax.numpy.asarray(array)
    systems: dict[str, Callable[[], Any]] = {}
    if "jax" in backends:
        kernel = aotbuild.load(package).affine
        placed = {"w": on_device, "b": on_device}
        systems["jax backend"] = lambda: kernel(placed, on_device)
        systems["jax.jit"] = lambda: jitted(placed, on_device)
    if "numpy" in backends:
        other = aotbuild.load(package, arrays="numpy").affine
        given = {"w": array, "b": array}
        systems["numpy backend"] = lambda: other(given, array)
        systems["jax.jit, numpy in and out"] = lambda: np.asarray(jitted(given, array))
    return systems


def measure(
    systems: dict[str, Callable[[], Any]], threads: list[int], rounds: int
) -> list[dict[str, Any]]:
    """Return, for each system, the median calls a second by number of threads."""
    for call in systems.values():
        _throughput(call, 1)
    samples: dict[str, dict[int, list[float]]] = {
        name: {count: [] for count in threads} for name in systems
    }
    for _ in range(rounds):
        for count in threads:
            for name, call in systems.items():
                samples[name][count].append(_throughput(call, count))
    return [
        {"system": name, "threads": {str(count): median(rates[count]) for count in threads}}
        for name, rates in samples.items()
    ]


def _throughput(call: Callable[[], Any], count: int) -> float:
    """Return calls a second over all threads, from when all are ready to when the last is done."""
    ready = threading.Barrier(count + 1)
    each = _CALLS // count

    def work() -> None:
        ready.wait()
        for _ in range(each):
            result = call()
        jax.block_until_ready(result)

    workers = [threading.Thread(target=work) for _ in range(count)]
    for worker in workers:
        worker.start()
    ready.wait()
    start = perf_counter()
    for worker in workers:
        worker.join()
    return each * count / (perf_counter() - start)


def _describe(row: dict[str, Any]) -> str:
    rates = ", ".join(f"{count}: {rate:,.0f}" for count, rate in row["threads"].items())
    return f"{row['system']:>26}, calls/s by threads: {rates}"


if __name__ == "__main__":
    sys.exit(main())
