"""jaxlib alone, by hand: the least that runs raw PJRT bytes, with no check of anything.

A yardstick, and no example to follow: private names of jaxlib 0.10.2 and 0.12.0.1, no digest, no
signature, no error. `import jax`, which jaxlib's C++ tries by itself, is shut out of the process.
"""

import sys
from pathlib import Path
from typing import Any

import run_support as run

import numpy as np

run.mark("import numpy")
from jaxlib import _jax, xla_client as xc

run.mark("import jaxlib")
sys.modules["jax"] = None  # type: ignore[assignment]
_jax.jit.set_enable_x64_state(
    _jax.config.Config("jax_enable_x64", False, include_in_jit_key=True)
) if hasattr(_jax, "jit") else _jax.jax_jit.set_enable_x64_state(
    _jax.config.Config("jax_enable_x64", False, include_in_jit_key=True)
)
client = xc.make_cpu_client()
device = client.local_devices()[0]
run.mark("client")


class Sharding(xc.SingleDeviceSharding):  # type: ignore[misc]
    """One device, as far as batched_device_put asks."""

    memory_kind = None

    def _to_xla_hlo_sharding(self, ndim: int) -> Any:
        return xc.HloSharding.replicate()


class Aval:
    """Shape and dtype of an array."""

    weak_type = False

    def __init__(self, array: Any) -> None:
        self.shape, self.dtype = array.shape, array.dtype


def put(array: Any) -> Any:
    """Return an array on the device."""
    return xc.batched_device_put(Aval(array), Sharding(device), [array], [device], True)


options = xc.CompileOptions()
options.executable_build_options.device_assignment = xc.DeviceAssignment.create(np.array([[0]]))
executable = client.deserialize_executable(
    Path(run.OPTIONS["--artifact"], "executable.bin").read_bytes(),
    executable_devices=xc.DeviceList((device,)),
    compile_options=options,
)
run.mark("load")
# jit flattens a dict in the order of its keys.
weights = [put(array) for _, array in sorted(run.read_arrays("--weights").items())]
inputs = run.read_arrays("--inputs").values()
run.mark("weights")


def call() -> list[Any]:
    """Call once, numpy in and out."""
    results = executable.execute_sharded([*weights, *map(put, inputs)])
    outputs = results.disassemble_into_single_device_arrays()
    return [array._single_device_array_to_np_array_did_copy()[0] for (array, *_) in outputs]


run.finish(call)
