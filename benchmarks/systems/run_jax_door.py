"""aotbuild with `arrays="jax"`; `--hoist yes` where the package has the weights."""

from typing import Any

import run_support as run

import numpy as np

run.mark("import numpy")
import jax

run.mark("import jax")
import aotbuild

library = aotbuild.load(run.OPTIONS["--artifact"] + "/_aot")
apply = library.apply
run.mark("open")
hoisted = run.OPTIONS.get("--hoist") == "yes"
weights = {} if hoisted else jax.device_put(run.read_arrays("--weights"))
inputs = run.read_arrays("--inputs").values()
run.mark("weights")
before = run.OPTIONS.get("--before", "nothing")
if before != "nothing":
    library.preload(**({"prime": True} if before == "prime" else {}))
    run.mark(before)


def call() -> list[Any]:
    """Call once, numpy in and out."""
    given = (weights, *inputs) if weights else tuple(inputs)
    return [np.asarray(leaf) for leaf in jax.tree.leaves(apply(*given))]


run.finish(call)
