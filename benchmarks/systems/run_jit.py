"""jax.jit; with `--cache yes` the persistent compilation cache in the artifact folder is used."""

import importlib
import sys
from pathlib import Path
from typing import Any

import run_support as run

import numpy as np

run.mark("import numpy")
import jax

run.mark("import jax")
if run.OPTIONS.get("--cache") == "yes":
    jax.config.update("jax_compilation_cache_dir", run.OPTIONS["--artifact"])
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
sys.path.insert(0, str(Path(__file__).parent.parent / "models"))
apply = jax.jit(importlib.import_module(run.OPTIONS["--model"]).apply)
run.mark("import model")
weights = jax.device_put(run.read_arrays("--weights"))
inputs = run.read_arrays("--inputs").values()
run.mark("weights")


def call() -> list[Any]:
    """Call once, numpy in and out."""
    given = (weights, *inputs) if weights else tuple(inputs)
    return [np.asarray(leaf) for leaf in jax.tree.leaves(apply(*given))]


run.finish(call)
