"""Measure a padded warm call against a call of the same executable that needs no padding.

The function is row-wise with one array in and one out. Blocks of calls alternate between the two,
and both wait for their result, as a padded call does; the median of the blocks' ratios is printed,
because a busy machine slows both halves of a pair alike. The difference is what padding costs:
deciding (cached), one copy in, one copy out. Both backends are measured.

    python benchmarks/padding.py [--sizes 4 1024] [--pairs 31] [--json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import jax
import numpy as np
from small_package import build_package

import aotbuild

_CALLS = 300
_BUCKET, _GIVEN = 8, 7
_SOURCE = """
def double(x):
    return x * 2
"""
_MANIFEST = """
version: 1
package: rows
functions:
  double:
    call: rows.model:double
    args: [x: "f32[batch,width]"]
    dims: {{batch: {bucket}, width: {widths}}}
    pad: {{batch: 0}}
"""


def main() -> int:
    """Print one line for each width and backend."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[4, 1024])
    parser.add_argument("--pairs", type=int, default=31)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    for result in measure(options.sizes, options.pairs):
        print(json.dumps(result) if options.json else _describe(result))
    return 0


def measure(widths: list[int], pairs: int) -> list[dict[str, Any]]:
    """Return medians in µs a call, and the median ratio of the pairs, by width and backend."""
    results = []
    with tempfile.TemporaryDirectory() as folder:
        place = build(Path(folder), widths)
        for arrays in ("jax", "numpy"):
            kernel = aotbuild.load(place, arrays=arrays).double
            results += [_measure(kernel, arrays, width, pairs) for width in widths]
    return results


def build(root: Path, widths: list[int]) -> Path:
    """Build the package; return its `_aot` folder."""
    manifest = _MANIFEST.format(bucket=_BUCKET, widths=widths)
    package: Path = build_package(root, "rows", _SOURCE, manifest)
    return package


def _measure(kernel: Callable[..., Any], arrays: str, width: int, pairs: int) -> dict[str, Any]:
    exact, given = (_example(arrays, rows, width) for rows in (_BUCKET, _GIVEN))
    expected = np.asarray(kernel(exact))[:_GIVEN]
    assert (np.asarray(kernel(given)) == expected).all(), "padding changes the result"
    rows = [(_seconds(kernel, exact), _seconds(kernel, given)) for _ in range(pairs)]
    return {
        "arrays": arrays,
        "width": width,
        "exact_us": statistics.median(one for one, _ in rows) * 1e6,
        "padded_us": statistics.median(other for _, other in rows) * 1e6,
        "ratio": statistics.median(other / one for one, other in rows),
    }


def _example(arrays: str, rows: int, width: int) -> Any:
    array = np.arange(rows * width, dtype=np.float32).reshape(rows, width)
    return jax.device_put(array, jax.devices()[0]) if arrays == "jax" else array


def _seconds(kernel: Callable[..., Any], x: Any) -> float:
    """Return the time of one call that waits for its result."""
    start = perf_counter()
    for _ in range(_CALLS):
        jax.block_until_ready(kernel(x))
    return (perf_counter() - start) / _CALLS


def _describe(result: dict[str, Any]) -> str:
    return (
        f"{result['arrays']:>5} {_GIVEN} of {_BUCKET} rows of {result['width']:>5}: "
        f"{result['padded_us']:7.1f} µs padded, {result['exact_us']:7.1f} µs exact, "
        f"ratio {result['ratio']:.2f}"
    )


if __name__ == "__main__":
    sys.exit(main())
