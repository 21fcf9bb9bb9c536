"""jax.export: StableHLO that was traced ahead, and is compiled while it loads."""

from pathlib import Path
from typing import Any

import run_support as run

import numpy as np

run.mark("import numpy")
import jax
from jax import export

run.mark("import jax")
exported = export.deserialize(
    bytearray(Path(run.OPTIONS["--artifact"], "exported.bin").read_bytes())
)
apply = jax.jit(exported.call)
run.mark("load")
weights = jax.device_put(run.read_arrays("--weights"))
inputs = run.read_arrays("--inputs").values()
run.mark("weights")


def call() -> list[Any]:
    """Call once, numpy in and out."""
    given = (weights, *inputs) if weights else tuple(inputs)
    return [np.asarray(leaf) for leaf in jax.tree.leaves(apply(*given))]


run.finish(call)
