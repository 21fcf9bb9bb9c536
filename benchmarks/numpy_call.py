"""One side of `dispatch.py --backend numpy-alone`: a process that calls a kernel, or jax.jit.

It calls a block for each line that it reads, and prints what a call took, in µs.

    python benchmarks/numpy_call.py {kernel,jit} --package FOLDER [--signatures 1]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

import aotbuild

_CALLS = 2000
# In bytes behind a multiple of 64: where arrays that malloc gave memory for begin.
_AS_NUMPY = 16

Call = Callable[..., Any]


def main() -> None:
    """Serve blocks until stdin ends."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["kernel", "jit"])
    parser.add_argument("--package")
    parser.add_argument("--signatures", type=int, default=1)
    options = parser.parse_args()
    if options.what == "jit":
        function = _jit()
    else:
        function = aotbuild.load(options.package, arrays="numpy").affine
    calls = [_arguments(size) for size in range(1, options.signatures + 1)]
    for _ in range(2):
        _time(function, calls)
    for _ in sys.stdin:
        print(_time(function, calls), flush=True)


def _jit() -> Call:
    import jax
    from dispatch import affine

    jitted = jax.jit(affine)

    def both_ways(params: dict[str, Any], x: Any) -> Any:
        return np.asarray(jitted(params, x))

    return both_ways


def _arguments(size: int) -> tuple[dict[str, Any], Any]:
    w, b, x = (_array(size) for _ in range(3))
    return {"w": w, "b": b}, x


def _array(size: int) -> Any:
    space = np.zeros(4 * size + 128, np.uint8)
    start = -space.ctypes.data % 64 + _AS_NUMPY
    return space[start : start + 4 * size].view(np.float32)


def _time(function: Call, calls: list[Any]) -> float:
    """Return what a call takes, in µs."""
    rounds = max(1, _CALLS // len(calls))
    start = perf_counter()
    for _ in range(rounds):
        for params, x in calls:
            function(params, x)
    return (perf_counter() - start) / (rounds * len(calls)) * 1e6


if __name__ == "__main__":
    main()
