"""Measure what it costs that each job of a process traces with caches of its own.

Traces and lowers eight jobs in one process: with jax's caches as they are, which know a jitted
helper with the shapes of an earlier job, and with `worker.own_caches`. The jobs are one function
for eight sizes, or (`alike`) eight functions that call the same helpers with the same shapes. Each
way has a process for each round. Gives medians of seconds, and of the ratio.

    python benchmarks/own_caches.py [--rounds 9] [--json]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

_JOBS = 8
# Prints the seconds of all jobs.
_CHILD = """
import json, sys
from contextlib import nullcontext
from time import perf_counter
import jax, jax.numpy as jnp, numpy as np
from aotbuild.worker.own_caches import own_caches
from models.transformer import apply
function, way, jobs = sys.argv[1], sys.argv[2], int(sys.argv[3])
width = 256

def weights():
    shapes = {"embedding": (2048, width), "positions": (64, width)}
    norms = ["norm", *(f"layer{n}.norm{k}" for n in range(12) for k in (1, 2))]
    shapes |= {f"{name}.{part}": (width,) for name in norms for part in ("scale", "bias")}
    dense = {"qkv": (1, 3), "project": (1, 1), "up": (1, 4), "down": (4, 1)}
    for n in range(12):
        for name, (rows, columns) in dense.items():
            shapes[f"layer{n}.{name}.kernel"] = (rows * width, columns * width)
            shapes[f"layer{n}.{name}.bias"] = (columns * width,)
    return {name: jax.ShapeDtypeStruct(shape, np.float32) for name, shape in shapes.items()}

def statistics(x):
    return jnp.var(x), jnp.median(x), jnp.linalg.norm(x), jax.nn.softmax(x), jnp.sort(x)

def calls():
    for size in range(1, jobs + 1):
        if function == "transformer":
            yield apply, (weights(), jax.ShapeDtypeStruct((size, 64), np.int32))
        elif function == "alike":
            scaled = lambda x, scale=size: statistics(x * scale)
            yield scaled, (jax.ShapeDtypeStruct((64, 64), np.float32),)
        else:
            yield statistics, (jax.ShapeDtypeStruct((size, 64), np.float32),)

jax.jit(lambda x: x + 1).lower(1.0)
start = perf_counter()
for traced, arguments in calls():
    with own_caches() if way == "own" else nullcontext():
        jax.jit(traced).trace(*arguments).lower()
print(json.dumps(perf_counter() - start))
"""


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    for function in ("statistics", "alike", "transformer"):
        row = measure(function, options.rounds)
        print(json.dumps(row) if options.json else _describe(row), flush=True)
    return 0


def measure(function: str, rounds: int) -> dict[str, Any]:
    """Return the medians over so many pairs of processes."""
    pairs = [(_seconds(function, "shared"), _seconds(function, "own")) for _ in range(rounds)]
    shared, own = (median(column) for column in zip(*pairs, strict=True))
    ratio = median(mine / theirs for theirs, mine in pairs)
    return {"function": function, "shared_s": shared, "own_s": own, "ratio": ratio}


def _seconds(function: str, way: str) -> float:
    command = [sys.executable, "-c", _CHILD, function, way, str(_JOBS)]
    here = str(Path(__file__).parent)
    return float(json.loads(subprocess.check_output(command, text=True, cwd=here)))


def _describe(row: dict[str, Any]) -> str:
    return (
        f"{row['function']}, {_JOBS} jobs: shared {row['shared_s']:.2f} s, "
        f"own {row['own_s']:.2f} s, ratio {row['ratio']:.2f}"
    )


if __name__ == "__main__":
    sys.exit(main())
