"""Measure how long a deep program takes to load: as XLA serializes it, and as packages hold it.

The program is a network of unrolled layers, of 6 thunks each. Executables load in turns, in one
process; medians of CPU time are printed. `without groups` is shortened as those of packages are,
but what it runs is one list.

    python benchmarks/loading.py [--layers 20 80 320] [--rounds 5] [--json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from time import process_time
from typing import Any

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from aotbuild.worker import private as jax_private
from aotbuild.worker.thunk_rewrite.grouping import group_thunks
from aotbuild.worker.thunk_rewrite.program import shrink_program

_SIZE = 32
# XLA then calls no library whose pipelines it would have to build.
_WITHOUT_YNN = {"xla_cpu_experimental_ynn_fusion_type": ""}


def main() -> int:
    """Print a line for each number of layers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, nargs="+", default=[20, 80, 320])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    for layers in options.layers:
        row = {"layers": layers, **measure(make(layers), options.rounds)}
        print(json.dumps(row) if options.json else _describe(row))
    return 0


def make(layers: int) -> dict[str, bytes]:
    """Return executables of a network: as XLA serializes it, shortened, and with groups."""

    def network(x: Any, weights: Any) -> Any:
        for _ in range(layers):
            x = jax.nn.softmax(jnp.tanh(x @ weights) * 2 + x, -1)
        return x

    shape = jax.ShapeDtypeStruct((_SIZE, _SIZE), np.float32)
    compiled = jax.jit(network).lower(shape, shape).compile(compiler_options=_WITHOUT_YNN)
    whole = jax_private.serialize_executable(compiled)
    shorter = shrink_program(whole, jaxlib.__version__)
    assert shorter is not None
    grouped = shrink_program(group_thunks(whole, jaxlib.__version__), jaxlib.__version__)
    assert grouped is not None
    return {"xla": whole, "without groups": shorter, "aotbuild": grouped}


def measure(executables: dict[str, bytes], rounds: int) -> dict[str, float]:
    """Return medians of the CPU time of loading, in ms; all executables give the same results."""
    device = jax.devices("cpu")[0]
    samples: dict[str, list[float]] = {name: [] for name in executables}
    results = set()
    for number in range(rounds):
        for name in executables if number % 2 == 0 else reversed(executables):
            start = process_time()
            executable = jax_private.load_executable(executables[name], device)
            samples[name].append(1e3 * (process_time() - start))
            if number == 0:
                ones = np.eye(_SIZE, dtype=np.float32)
                arrays = [jax.device_put(ones, device)] * 2
                results.add(jax_private.run_executable(executable, arrays)[0].tobytes())
    assert len(results) == 1, "the executables return different things"
    return {name: round(statistics.median(found), 1) for name, found in samples.items()}


def _describe(row: dict[str, Any]) -> str:
    times = ", ".join(f"{name} {row[name]:.1f}" for name in row if name != "layers")
    return f"{row['layers']:5} layers, ms of CPU: {times}"


if __name__ == "__main__":
    sys.exit(main())
