"""aotbuild with `arrays="jax"`; `--hoist yes` where the package has the weights.

With `--ahead yes` a thread loads the executable while this one reads the weights.
"""

import threading
from typing import Any

import run_support as run

import numpy as np

run.mark("import numpy")
import jax

run.mark("import jax")
import aotbuild

library = aotbuild.load(run.OPTIONS["--artifact"] + "/_aot")
apply = library.apply
if run.OPTIONS.get("--ahead") == "yes":
    threading.Thread(target=library.preload, args=("apply",)).start()
run.mark("open")
hoisted = run.OPTIONS.get("--hoist") == "yes"
weights = {} if hoisted else jax.device_put(run.read_arrays("--weights"))
inputs = run.read_arrays("--inputs").values()
run.mark("weights")


def call() -> list[Any]:
    """Call once, numpy in and out."""
    given = (weights, *inputs) if weights else tuple(inputs)
    return [np.asarray(leaf) for leaf in jax.tree.leaves(apply(*given))]


run.finish(call)
