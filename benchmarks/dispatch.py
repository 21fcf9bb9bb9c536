"""Measure a warm call of a kernel against jax.jit, at 1 and at 64 signatures.

Both run the same tiny function (two leaves in a dict, one array), so that the dispatch is all there
is. Blocks of calls alternate between the two; the median of the blocks' ratios is printed, because
a busy machine slows both halves of a pair alike. Exits 1 above the limit.

    python benchmarks/dispatch.py [--signatures 1 64] [--pairs 61] [--limit 1.05] [--json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import jax
import numpy as np

import aotbuild

_CALLS = 2000
_SOURCE = """
def affine(params, x):
    return params["w"] * x + params["b"]
"""
_MANIFEST = """
version: 1
package: affine
functions:
  affine:
    call: affine.model:affine
    args: [params: {{w: "f32[size]", b: "f32[size]"}}, x: "f32[size]"]
    dims: {{size: {sizes}}}
"""


def affine(params: dict[str, Any], x: Any) -> Any:
    """Return w * x + b."""
    return params["w"] * x + params["b"]


def build(root: Path, signatures: int) -> Path:
    """Build a package with this many signatures of `affine`; return its `_aot` folder."""
    (root / "affine").mkdir()
    (root / "affine" / "__init__.py").touch()
    (root / "affine" / "model.py").write_text(_SOURCE)
    sizes = list(range(1, signatures + 1))
    (root / "aot.yaml").write_text(_MANIFEST.format(sizes=sizes))
    command = [sys.executable, "-m", "aotbuild.cli", "build", str(root / "aot.yaml")]
    subprocess.run([*command, "--out", str(root / "_aot")], check=True, capture_output=True)
    return root / "_aot"


def main() -> int:
    """Run the benchmark; return 1 if a ratio is above the limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--signatures", type=int, nargs="+", default=[1, 64])
    parser.add_argument("--pairs", type=int, default=61)
    parser.add_argument("--limit", type=float, default=1.05)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results = [measure(count, options.pairs) for count in options.signatures]
    for result in results:
        print(json.dumps(result) if options.json else _describe(result))
    return int(any(result["ratio"] > options.limit for result in results))


def measure(signatures: int, pairs: int) -> dict[str, float]:
    """Return the medians of both in µs a call, and the median ratio of the pairs."""
    inputs = [example(size) for size in range(1, signatures + 1)]
    with tempfile.TemporaryDirectory() as folder:
        library = aotbuild.load(build(Path(folder), signatures))
        kernel, jitted = library.affine, jax.jit(affine)
        calls = [tuple(given.values()) for given in inputs]
        for arguments in calls:
            np.testing.assert_array_equal(kernel(*arguments), jitted(*arguments))
        samples = [_pair(kernel, jitted, calls, index) for index in range(pairs)]
    return {
        "signatures": signatures,
        "kernel_us": statistics.median(kernel_us for kernel_us, _ in samples),
        "jit_us": statistics.median(jit_us for _, jit_us in samples),
        "ratio": statistics.median(kernel_us / jit_us for kernel_us, jit_us in samples),
    }


def example(size: int) -> dict[str, Any]:
    """Return arguments of one signature, as uncommitted arrays on the default device."""
    array = jax.numpy.arange(size, dtype="float32")
    return {"params": {"w": array, "b": array}, "x": array}


def _pair(
    kernel: Callable[..., Any], jitted: Callable[..., Any], calls: list[Any], index: int
) -> tuple[float, float]:
    """Time both once, in turn the one and the other first."""
    if index % 2:
        jit_us = _time(jitted, calls)
        return _time(kernel, calls), jit_us
    kernel_us = _time(kernel, calls)
    return kernel_us, _time(jitted, calls)


def _time(function: Callable[..., Any], calls: list[Any]) -> float:
    result = None
    rounds = max(1, _CALLS // len(calls))
    start = perf_counter()
    for _ in range(rounds):
        for arguments in calls:
            result = function(*arguments)
    jax.block_until_ready(result)
    return (perf_counter() - start) / (rounds * len(calls)) * 1e6


def _describe(result: dict[str, float]) -> str:
    return (
        f"{result['signatures']:>4} signatures: kernel {result['kernel_us']:.2f} µs, "
        f"jit {result['jit_us']:.2f} µs, ratio {result['ratio']:.3f}"
    )


if __name__ == "__main__":
    sys.exit(main())
