"""Measure p50, p99 and p99.9 of single warm calls of a kernel, beside jax.jit.

Both run the same tiny function, and each call is timed from its arguments to a result that is
there. The two take turns call by call, so that what disturbs the machine disturbs both. A round
has percentiles and their ratios; the medians over all rounds are printed.

    python benchmarks/percentiles.py [--backend jax numpy] [--rounds 15] [--calls 10000] [--json]
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import jax
import numpy as np
from dispatch import affine
from small_package import build_affine

import aotbuild

_PERCENTILES = (50.0, 99.0, 99.9)
_SIZE = 64

Call = Callable[[], Any]


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", nargs="+", choices=["jax", "numpy"], default=["jax", "numpy"])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=10000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        package = build_affine(Path(folder), [_SIZE])
        for backend in options.backend:
            for row in measure(backend, *_pair(backend, package), options.rounds, options.calls):
                print(json.dumps(row) if options.json else _describe(row), flush=True)
    return 0


def _pair(backend: str, package: Path) -> tuple[Call, Call]:
    """Return a call of the kernel and one of jit, with the same kinds of arrays in and out."""
    kernel, jitted = aotbuild.load(package, arrays=backend).affine, jax.jit(affine)
    array: Any = np.arange(_SIZE, dtype="float32")
    if backend == "numpy":
        given = {"w": array, "b": array}, array
        return lambda: kernel(*given), lambda: np.asarray(jitted(*given))
    array = jax.numpy.asarray(array)
    placed = {"w": array, "b": array}, array
    return (
        lambda: kernel(*placed).block_until_ready(),
        lambda: jitted(*placed).block_until_ready(),
    )


def measure(
    backend: str, ours: Call, theirs: Call, rounds: int, calls: int
) -> list[dict[str, Any]]:
    """Return a row for each percentile: µs of both, and the ratio."""
    np.testing.assert_array_equal(ours(), theirs())
    _round(ours, theirs, calls // 10)
    pairs = [_round(ours, theirs, calls) for _ in range(rounds)]
    return [
        {
            "backend": backend,
            "percentile": f"p{percentile:g}",
            "kernel_us": statistics.median(kernel[index] for kernel, _ in pairs),
            "jit_us": statistics.median(jit[index] for _, jit in pairs),
            "ratio": statistics.median(kernel[index] / jit[index] for kernel, jit in pairs),
        }
        for index, percentile in enumerate(_PERCENTILES)
    ]


def _round(ours: Call, theirs: Call, calls: int) -> tuple[list[float], list[float]]:
    """Return the percentiles of both in µs, over so many calls of each."""
    samples = np.zeros((2, calls))
    gc.collect()
    for index in range(calls):
        for which, call in ((0, ours), (1, theirs)) if index % 2 else ((1, theirs), (0, ours)):
            start = perf_counter_ns()
            call()
            samples[which, index] = perf_counter_ns() - start
    kernel, jit = np.percentile(samples, _PERCENTILES, axis=1).T / 1000
    return kernel.tolist(), jit.tolist()


def _describe(row: dict[str, Any]) -> str:
    return (
        f"{row['backend']} arrays, {row['percentile']}: kernel {row['kernel_us']:.2f} µs, "
        f"jit {row['jit_us']:.2f} µs, ratio {row['ratio']:.3f}"
    )


if __name__ == "__main__":
    sys.exit(main())
