"""aotbuild with `arrays="numpy"`; `--hoist yes` where the package has the weights.

With `--ahead yes` a thread loads the executable while this one reads the weights.
"""

import threading
from typing import Any

import run_support as run

import aotbuild

run.mark("import aotbuild")
library = aotbuild.load(run.OPTIONS["--artifact"] + "/_aot", arrays="numpy")
apply = library.apply
if run.OPTIONS.get("--ahead") == "yes":
    threading.Thread(target=library.preload, args=("apply",)).start()
run.mark("open")
hoisted = run.OPTIONS.get("--hoist") == "yes"
weights = {} if hoisted else library.place(run.read_arrays("--weights"))
inputs = run.read_arrays("--inputs").values()
run.mark("weights")


def call() -> list[Any]:
    """Call once, numpy in and out."""
    given = (weights, *inputs) if weights else tuple(inputs)
    outputs = apply(*given)
    return list(outputs) if isinstance(outputs, tuple) else [outputs]


run.finish(call)
