"""Measure a warm call of jax.jit inside a guard against the same call without one.

Blocks of calls alternate between the two, because a busy machine slows both halves of a pair alike.
Prints the medians of the blocks, the median of the pairs' ratios, and what it costs to enter and
leave a `with` block; exits 1 above the limit. The guards:

- `with`: the calls are inside `with aotbuild.guard("raise"):`;
- `process`: they are between `aotbuild.guard("raise").start()` and `.stop()`.

    python benchmarks/guard.py [--pairs 2001] [--limit 1.01] [--json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from time import perf_counter
from typing import Any

import jax
import numpy as np

import aotbuild

_CALLS = 200

Place = Callable[[], AbstractContextManager[Any]]


def main() -> int:
    """Run the benchmark; return 1 if a ratio is above the limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=2001)
    parser.add_argument("--limit", type=float, default=1.01)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = [measure(name, options.pairs) for name in _PLACES]
    for row in rows:
        print(json.dumps(row) if options.json else _describe(row), flush=True)
    return int(max(row["ratio"] for row in rows) > options.limit)


@contextmanager
def _process() -> Iterator[None]:
    switch = aotbuild.guard("raise").start()
    try:
        yield
    finally:
        switch.stop()


_PLACES: dict[str, Place] = {"with": lambda: aotbuild.guard("raise"), "process": _process}


def measure(name: str, pairs: int) -> dict[str, Any]:
    """Return the medians in µs a call, and the median ratio of the pairs."""
    call, argument = jax.jit(lambda x: x + 1), jax.numpy.asarray(np.ones(4, np.float32))
    call(argument)
    samples = [_pair(_PLACES[name], index, call, argument) for index in range(pairs)]
    return {
        "guard": name,
        "plain_us": statistics.median(plain for plain, _ in samples),
        "guarded_us": statistics.median(guarded for _, guarded in samples),
        "ratio": statistics.median(guarded / plain for plain, guarded in samples),
        "enter_us": _enter(_PLACES[name]),
    }


def _pair(place: Place, index: int, call: Any, argument: Any) -> tuple[float, float]:
    """Time both once, in turn the one and the other first."""
    if index % 2:
        guarded = _time(place, call, argument)
        return _time(nullcontext, call, argument), guarded
    return _time(nullcontext, call, argument), _time(place, call, argument)


def _time(place: Place, call: Any, argument: Any) -> float:
    with place():
        result = call(argument)
        start = perf_counter()
        for _ in range(_CALLS):
            result = call(argument)
        jax.block_until_ready(result)
        return (perf_counter() - start) / _CALLS * 1e6


def _enter(place: Place) -> float:
    start = perf_counter()
    for _ in range(_CALLS):
        with place():
            pass
    return (perf_counter() - start) / _CALLS * 1e6


def _describe(row: dict[str, Any]) -> str:
    return (
        f"{row['guard']}: jit {row['plain_us']:.2f} µs, inside the guard "
        f"{row['guarded_us']:.2f} µs, ratio {row['ratio']:.3f}; to enter and leave it "
        f"{row['enter_us']:.1f} µs"
    )


if __name__ == "__main__":
    sys.exit(main())
