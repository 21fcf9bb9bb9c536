"""Compile a model with IREE, from the StableHLO that jax exports, for this machine's CPU."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
from jax import export

sys.path.insert(0, str(Path(__file__).parents[1] / "builders"))
from build_support import parse_job, read_arrays

_FLAGS = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
    "--iree-opt-level=O3",
)

job = parse_job()
apply = job.function()
inputs = read_arrays(job.inputs).values()
weights = {name: jax.numpy.asarray(array) for name, array in read_arrays(job.weights).items()}


def closed(*given: Any) -> Any:
    """Call the model with the weights as constants."""
    return apply(weights, *given)


if job.hoist:
    exported = export.export(jax.jit(closed))(*inputs)
else:
    exported = export.export(jax.jit(apply))(weights, *inputs)
source = job.artifact / "model.mlirbc"
source.write_bytes(exported.mlir_module_serialized)
compiler = Path(sys.executable).with_name("iree-compile")
subprocess.run(
    [compiler, *_FLAGS, source, "-o", job.artifact / "model.vmfb"], check=True, timeout=900
)
source.unlink()
