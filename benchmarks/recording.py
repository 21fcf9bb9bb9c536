"""Measure a warm call of jax.jit that is recorded against the same call that is not.

Blocks of calls alternate between the two, because a busy machine slows both halves of a pair alike.
Prints the medians of the blocks and the median of the pairs' differences; exits 1 if one of a
function with one signature is above the limit. The calls have 3 arrays, or a tree of 200: 25
layers, a dict of dicts each. A function with a second signature is looked at in each call.

    python benchmarks/recording.py [--pairs 501] [--limit 30] [--json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from time import perf_counter
from typing import Any

import jax
import jax.numpy as jnp

import aotbuild

_CALLS = 200
_LAYERS, _ARRAYS = 25, ("query", "key", "value", "output", "up", "down", "scale", "bias")


def main() -> int:
    """Run the benchmark; return 1 if recording a call of a function with one signature is slow."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=501)
    parser.add_argument("--limit", type=float, default=30.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = []
    for signatures in (1, 2):
        for arguments in _arguments():
            rows.append(row := measure(arguments, signatures, options.pairs))
            print(json.dumps(row) if options.json else _describe(row), flush=True)
    return int(max(row["overhead_us"] for row in rows[:2]) > options.limit)


def _arguments() -> list[tuple[Any, ...]]:
    layer = {"attention": dict.fromkeys(_ARRAYS[:4]), "mlp": dict.fromkeys(_ARRAYS[4:])}
    tree = {f"layer_{index}": layer for index in range(_LAYERS)}
    is_leaf = lambda each: each is None  # noqa: E731
    layers = jax.tree.map(lambda _: jnp.ones(4), tree, is_leaf=is_leaf)
    return [tuple(jnp.ones(4) for _ in range(3)), (layers,)]


def measure(arguments: tuple[Any, ...], signatures: int, pairs: int) -> dict[str, Any]:
    """Return the medians in µs a call, and the median difference of the pairs."""
    call = jax.jit(lambda *values: jax.tree.leaves(values)[0] + 1)
    for size in range(4, 4 + signatures):
        call(*jax.tree.map(lambda _, size=size: jnp.ones(size), arguments))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "calls.jsonl")
        recorded = lambda: aotbuild.record(path)  # noqa: E731
        samples = [_pair(recorded, index, call, arguments) for index in range(pairs)]
    return {
        "signatures": signatures,
        "leaves": len(jax.tree.leaves(arguments)),
        "plain_us": statistics.median(plain for plain, _ in samples),
        "recorded_us": statistics.median(recorded for _, recorded in samples),
        "overhead_us": statistics.median(recorded - plain for plain, recorded in samples),
    }


Place = Callable[[], AbstractContextManager[Any]]


def _pair(place: Place, index: int, call: Any, arguments: tuple[Any, ...]) -> tuple[float, float]:
    """Time both once, in turn the one and the other first."""
    if index % 2:
        recorded = _time(place, call, arguments)
        return _time(nullcontext, call, arguments), recorded
    return _time(nullcontext, call, arguments), _time(place, call, arguments)


def _time(place: Place, call: Any, arguments: tuple[Any, ...]) -> float:
    with place():
        result = call(*arguments)  # its signature is described
        start = perf_counter()
        for _ in range(_CALLS):
            result = call(*arguments)
        jax.block_until_ready(result)
        return (perf_counter() - start) / _CALLS * 1e6


def _describe(row: dict[str, Any]) -> str:
    return (
        f"{row['leaves']} leaves, signature 1 of {row['signatures']}: jit {row['plain_us']:.1f} µs,"
        f" recorded {row['recorded_us']:.1f} µs, {row['overhead_us']:.1f} µs more"
    )


if __name__ == "__main__":
    sys.exit(main())
