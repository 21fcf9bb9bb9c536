"""jax.experimental.serialize_executable: finished code, and a pickle of what is around it."""

import pickle
from pathlib import Path
from typing import Any

import run_support as run

import numpy as np

run.mark("import numpy")
import jax
from jax.experimental import serialize_executable

run.mark("import jax")
stored = Path(run.OPTIONS["--artifact"], "executable.pickle").read_bytes()
apply = serialize_executable.deserialize_and_load(*pickle.loads(stored))
run.mark("load")
weights = jax.device_put(run.read_arrays("--weights"))
inputs = run.read_arrays("--inputs").values()
run.mark("weights")


def call() -> list[Any]:
    """Call once, numpy in and out."""
    given = (weights, *inputs) if weights else tuple(inputs)
    return [np.asarray(leaf) for leaf in jax.tree.leaves(apply(*given))]


run.finish(call)
