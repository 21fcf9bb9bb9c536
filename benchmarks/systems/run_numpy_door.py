"""aotbuild with `arrays="numpy"`; `--hoist yes` where the package has the weights."""

from typing import Any

import run_support as run

import aotbuild

run.mark("import aotbuild")
library = aotbuild.load(run.OPTIONS["--artifact"] + "/_aot", arrays="numpy")
apply = library.apply
run.mark("open")
hoisted = run.OPTIONS.get("--hoist") == "yes"
weights = {} if hoisted else run.read_arrays("--weights")
inputs = run.read_arrays("--inputs").values()
run.mark("weights")
before = run.OPTIONS.get("--before", "nothing")
if before != "nothing":
    library.preload(**({"prime": True} if before == "prime" else {}))
    run.mark(before)


def call() -> list[Any]:
    """Call once, numpy in and out."""
    given = (weights, *inputs) if weights else tuple(inputs)
    outputs = apply(*given)
    return list(outputs) if isinstance(outputs, tuple) else [outputs]


run.finish(call)
