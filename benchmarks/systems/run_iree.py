"""IREE: a module of finished code that is mapped; weights inside, or given as device arrays."""

from pathlib import Path
from typing import Any

import run_support as run

import numpy as np

run.mark("import numpy")
import iree.runtime as rt

run.mark("import iree")
# local-sync computes in the calling thread, local-task in a pool of threads.
config = rt.Config(run.OPTIONS["--driver"])
path = str(Path(run.OPTIONS["--artifact"], "model.vmfb"))
main = rt.load_vm_module(rt.VmModule.mmap(config.vm_instance, path), config)["main"]
run.mark("load")
weights: list[Any] = []
if run.OPTIONS["--hoist"] == "no":
    given = sorted(run.read_arrays("--weights").items())  # as jax flattens a dict
    weights = [rt.asdevicearray(config.device, array) for _, array in given]
inputs = run.read_arrays("--inputs").values()
run.mark("weights")


def call() -> list[Any]:
    """Call once, numpy in and out."""
    return [np.asarray(main(*weights, *inputs).to_host())]


run.finish(call)
