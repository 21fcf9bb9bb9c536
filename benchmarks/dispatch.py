"""Measure a warm call of a kernel against jax.jit, at 1, 64 and 1,000 signatures.

Both run the same tiny function (two leaves in a dict, one array), so that the dispatch is all there
is. Blocks of calls alternate between the two, because a busy machine slows both halves of a pair
alike. Prints the median of the blocks' ratios; exits 1 above the limit. The backends:

- `jax` gives both jax arrays;
- `numpy` gives both numpy arrays, and jit's result is made a numpy array;
- `numpy-alone` does the same in two processes, so that the kernel's process has no jax in it, as
  in real use of that backend. `numpy_call.py` is either process.

    python benchmarks/dispatch.py [--signatures 1 64] [--backend jax numpy numpy-alone] [--pairs 61]
        [--limit 1.05] [--json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import jax
import numpy as np
from small_package import build_affine

import aotbuild

_CALLS = 2000
_HERE = Path(__file__).parent

Call = Callable[..., Any]
Timer = Callable[[], float]


def affine(params: dict[str, Any], x: Any) -> Any:
    """Return w * x + b."""
    return params["w"] * x + params["b"]


def build(root: Path, signatures: int) -> Path:
    """Build a package with this many signatures of `affine`; return its `_aot` folder."""
    package: Path = build_affine(root, range(1, signatures + 1))
    return package


def main() -> int:
    """Run the benchmark; return 1 if a ratio is above the limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--signatures", type=int, nargs="+", default=[1, 64])
    parser.add_argument("--backend", nargs="+", choices=list(_BACKENDS), default=["jax"])
    parser.add_argument("--pairs", type=int, default=61)
    parser.add_argument("--limit", type=float, default=1.05)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    worst = 0.0
    for count in options.signatures:
        for result in measure(count, options.backend, options.pairs):
            print(json.dumps(result) if options.json else _describe(result), flush=True)
            worst = max(worst, result["ratio"])
    return int(worst > options.limit)


def measure(signatures: int, backends: list[str], pairs: int) -> list[dict[str, Any]]:
    """Return both medians in µs a call, and the median ratio of the pairs, for each backend."""
    with tempfile.TemporaryDirectory() as folder:
        package = build(Path(folder), signatures)
        return [_BACKENDS[backend](package, signatures, pairs) for backend in backends]


def _jax_backend(package: Path, signatures: int, pairs: int) -> dict[str, Any]:
    calls = [_arguments(jax.numpy.asarray, size) for size in range(1, signatures + 1)]
    return _compare("jax", aotbuild.load(package).affine, jax.jit(affine), calls, pairs)


def _numpy_backend(package: Path, signatures: int, pairs: int) -> dict[str, Any]:
    calls = [_arguments(np.asarray, size) for size in range(1, signatures + 1)]
    jitted = jax.jit(affine)

    def both_ways(params: dict[str, Any], x: Any) -> Any:
        return np.asarray(jitted(params, x))

    kernel = aotbuild.load(package, arrays="numpy").affine
    return _compare("numpy", kernel, both_ways, calls, pairs)


def _numpy_alone(package: Path, signatures: int, pairs: int) -> dict[str, Any]:
    process = partial(_process, package=package, signatures=signatures)
    with process("kernel") as kernel, process("jit") as jitted:
        samples = [_pair(kernel, jitted, index) for index in range(pairs)]
    return _result("numpy-alone", signatures, samples)


@contextmanager
def _process(what: str, package: Path, signatures: int) -> Iterator[Timer]:
    """Start a process that calls; yield what has it call a block and returns µs a call."""
    options = ["--package", str(package), "--signatures", str(signatures)]
    command = [sys.executable, str(_HERE / "numpy_call.py"), what, *options]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        given, printed = process.stdin, process.stdout
        assert given is not None
        assert printed is not None

        def block() -> float:
            print(file=given, flush=True)
            return float(printed.readline())

        block()
        yield block


_BACKENDS = {"jax": _jax_backend, "numpy": _numpy_backend, "numpy-alone": _numpy_alone}


def _arguments(place: Call, size: int) -> tuple[dict[str, Any], Any]:
    """Return arguments of one signature; jax arrays are uncommitted, on the default device."""
    array = place(np.arange(size, dtype="float32"))
    return {"w": array, "b": array}, array


def _compare(
    backend: str, kernel: Call, jitted: Call, calls: list[Any], pairs: int
) -> dict[str, Any]:
    for arguments in calls:
        np.testing.assert_array_equal(kernel(*arguments), jitted(*arguments))
    ours, theirs = (partial(_time, function, calls) for function in (kernel, jitted))
    return _result(backend, len(calls), [_pair(ours, theirs, index) for index in range(pairs)])


def _result(backend: str, signatures: int, samples: list[tuple[float, float]]) -> dict[str, Any]:
    return {
        "backend": backend,
        "signatures": signatures,
        "kernel_us": statistics.median(kernel_us for kernel_us, _ in samples),
        "jit_us": statistics.median(jit_us for _, jit_us in samples),
        "ratio": statistics.median(kernel_us / jit_us for kernel_us, jit_us in samples),
    }


def _pair(kernel: Timer, jitted: Timer, index: int) -> tuple[float, float]:
    """Time both once, in turn the one and the other first."""
    if index % 2:
        jit_us = jitted()
        return kernel(), jit_us
    kernel_us = kernel()
    return kernel_us, jitted()


def _time(function: Call, calls: list[Any]) -> float:
    result = None
    rounds = max(1, _CALLS // len(calls))
    start = perf_counter()
    for _ in range(rounds):
        for arguments in calls:
            result = function(*arguments)
    jax.block_until_ready(result)
    return (perf_counter() - start) / (rounds * len(calls)) * 1e6


def _describe(result: dict[str, Any]) -> str:
    return (
        f"{result['signatures']:>4} signatures, {result['backend']} arrays: "
        f"kernel {result['kernel_us']:.2f} µs, jit {result['jit_us']:.2f} µs, "
        f"ratio {result['ratio']:.3f}"
    )


if __name__ == "__main__":
    sys.exit(main())
