"""Every private name of jax and jaxlib that the build side uses.

Each was tried on jax/jaxlib 0.10.2 (Python 3.11) and 0.12.0.1 (Python 3.12).
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax._src import core, source_info_util
from jax._src.lib import _jax, xla_client
from jax._src.random import prng
from jax._src.sharding_impls import GSPMDSharding, parse_flatten_op_sharding
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

# Lowering imports mhlo and builtin. Here that is done once for all forks.
from jaxlib.mlir.dialects import builtin, mhlo, stablehlo  # noqa: F401

from aotbuild.format.target import HOST
from aotbuild.platforms.base import host_part

# Tags as jax prints them in `key<fry>[]`; `prng.prngs` maps names to implementations.
_PRNG_IMPLEMENTATIONS = {"fry": "threefry2x32", "rbg": "rbg", "urbg": "unsafe_rbg"}


def dtype_of(name: str) -> Any:
    """Return the dtype of a long name, as `bfloat16` or `key<fry>`.

    Private: `prng.KeyTy`, `prng.prngs`. jax.random.key makes one, but compiles to do so.
    """
    if name.startswith("key<"):
        return prng.KeyTy(prng.prngs[_PRNG_IMPLEMENTATIONS[name[4:-1]]])
    return jax.numpy.dtype(name)


def serialize_executable(compiled: jax.stages.Compiled) -> bytes:
    """Return the raw PJRT bytes of a compiled function, also of one for absent devices.

    Private: `Executable.serialize` and `LoadedExecutable.serialize`. The public
    jax.experimental.serialize_executable wraps these bytes in a pickle, and needs the devices.
    """
    executable: Any = compiled.runtime_executable()
    return bytes(executable.serialize())


def load_executable(data: bytes, device: Any) -> Any:
    """Return the loaded executable of raw PJRT bytes, on one CPU device.

    Private: `Client.deserialize_executable`, `CompileOptions`, `DeviceAssignment`, `DeviceList`.
    """
    options: Any = xla_client.CompileOptions()
    options.num_replicas = options.num_partitions = 1
    options.executable_build_options.use_spmd_partitioning = True
    options.device_assignment = xla_client.DeviceAssignment.create(np.array([[device.id]]))
    return device.client.deserialize_executable(
        data, executable_devices=xla_client.DeviceList((device,)), compile_options=options
    )


def run_executable(executable: Any, arrays: list[Any]) -> list[Any]:
    """Return the outputs of what `load_executable` returned, as numpy arrays.

    Private: `LoadedExecutable.execute_sharded`.
    """
    results = executable.execute_sharded(arrays).disassemble_into_single_device_arrays()
    return [np.asarray(shards[0]) for shards in results]


def prepare_custom_calls(data: bytes) -> None:
    """Register and initialize what an executable for CPUs may call of jax's, as the runtime does.

    Private: `xla_client.register_custom_call_target`.
    """
    for module in host_part(HOST).kernels():
        found = {name: call for name, call in module.handlers.items() if name.encode() in data}
        if found and module.initialize is not None:
            module.initialize()
        for name, handler in found.items():
            xla_client.register_custom_call_target(name, handler, HOST, 1)


def absent_cpu_devices(describe: Callable[[bytes], bytes]) -> list[Any]:
    """Return devices to compile for: of this process's CPU topology, as `describe` changes it.

    Private: `_jax.get_topology_for_devices`, and of what it returns `serialize`, `deserialize` and
    `_make_compile_only_devices`. Since jaxlib 0.11.2. XLA aborts the process over an unknown CPU.
    """
    here = _jax.get_topology_for_devices(jax.devices("cpu")).serialize()
    return list(_jax.DeviceTopology.deserialize(describe(here))._make_compile_only_devices())


def move(lowered: jax.stages.Lowered, devices: Sequence[Any]) -> None:
    """Let a lowered function be compiled for other devices, which take the places of its own.

    Its module names no device. Private: `Lowering.compile_args` and `_device_list`, with the
    arguments `backend`, `in_shardings`, `out_shardings`, `intermediate_shardings`, `context_mesh`.
    """
    lowering: Any = lowered._lowering
    here = tuple(lowering._device_list)
    if here == tuple(devices):
        return
    places = dict(zip(here, devices, strict=True))
    arguments = lowering.compile_args
    for name in ("in_shardings", "out_shardings", "intermediate_shardings"):
        arguments[name] = tuple(_moved(sharding, places) for sharding in arguments[name])
    arguments["context_mesh"] = _moved_mesh(arguments["context_mesh"], places)
    arguments["backend"] = devices[0].client
    lowering._device_list = xla_client.DeviceList(tuple(devices))


def _moved(sharding: Any, places: dict[Any, Any]) -> Any:
    match sharding:
        case NamedSharding():
            mesh = _moved_mesh(sharding.mesh, places)
            return NamedSharding(mesh, sharding.spec, memory_kind=sharding.memory_kind)
        case SingleDeviceSharding():
            (device,) = sharding.device_set
            return SingleDeviceSharding(places[device], memory_kind=sharding.memory_kind)
        case GSPMDSharding():
            moved = tuple(places[device] for device in sharding._device_assignment)
            return GSPMDSharding(moved, sharding._hlo_sharding, memory_kind=sharding.memory_kind)
    return sharding  # not specified


def _moved_mesh(mesh: Any, places: dict[Any, Any]) -> Any:
    if not isinstance(mesh, Mesh) or mesh.empty:
        return mesh
    grid = np.array([places[device] for device in mesh.devices.flat], dtype=object)
    return Mesh(grid.reshape(mesh.devices.shape), mesh.axis_names, axis_types=mesh.axis_types)


def spec_over(mesh: Mesh, sharding: Any, ndim: int) -> PartitionSpec | None:
    """Return the PartitionSpec over the axes of a mesh that means the same as a sharding, if any.

    Private: `sharding_impls.parse_flatten_op_sharding`, `Sharding._to_xla_hlo_sharding` and
    `Sharding._device_assignment`.
    """
    grid = np.array(sharding._device_assignment, dtype=object).reshape(mesh.devices.shape)
    mesh = Mesh(grid, mesh.axis_names, axis_types=mesh.axis_types)
    try:
        (spec,) = parse_flatten_op_sharding(sharding._to_xla_hlo_sharding(ndim), mesh)
    except Exception:  # noqa: BLE001 (it raises many types where the axes cannot say it)
        return None
    return spec if NamedSharding(mesh, spec).is_equivalent_to(sharding, ndim) else None


def compiled_module(compiled: jax.stages.Compiled) -> Any:
    """Return the optimized HLO module. Not documented by jax: `hlo_modules` of the executable."""
    executable: Any = compiled.runtime_executable()
    return executable.hlo_modules()[0]


def program_shapes(compiled: jax.stages.Compiled) -> tuple[list[tuple[str, list[int]]], ...]:
    """Return the dtypes and shapes of a compiled program's inputs, and those of its results.

    They are those of one device, and tokens are `token`. Private: `xla_client.XlaComputation`, its
    `program_shape`, and the methods of `Shape`.
    """
    proto = compiled_module(compiled).as_serialized_hlo_module_proto()
    shape = xla_client.XlaComputation(proto).program_shape()
    # XLA:TPU takes many inputs as one tuple.
    inputs = [each for one in shape.parameter_shapes() for each in _flat_shapes(one)]
    return tuple(
        [*map(_dtype_and_shape, side)] for side in (inputs, _flat_shapes(shape.result_shape()))
    )


def _flat_shapes(shape: Any) -> list[Any]:
    return list(shape.tuple_shapes()) if shape.is_tuple() else [shape]


def _dtype_and_shape(shape: Any) -> tuple[str, list[int]]:
    if shape.xla_element_type() == xla_client.PrimitiveType.TOKEN:
        return "token", []
    return np.dtype(shape.numpy_dtype()).name, list(shape.dimensions())


def lowered_module(lowered: jax.stages.Lowered) -> Any:
    """Return the HLO module before XLA optimizes it. Private: `Lowering.hlo`."""
    lowering: Any = lowered._lowering
    return lowering.hlo().as_hlo_module()


def module_cost(module: Any) -> dict[str, float]:
    """Return XLA's estimates for an HLO module of any platform, made by this process's CPU client.

    Private: `_jax.hlo_module_cost_analysis`; `Lowered.cost_analysis` is the same for present
    devices. A custom call counts as nothing.
    """
    client: Any = jax.devices("cpu")[0].client
    return dict(_jax.hlo_module_cost_analysis(client, module))


def kept_inputs(lowered: jax.stages.Lowered) -> tuple[int, ...]:
    """Return the indices of inputs that the executable takes. Private: `kept_var_idx`."""
    lowering: Any = lowered._lowering
    return tuple(sorted(lowering.compile_args["kept_var_idx"]))


def const_args(lowered: jax.stages.Lowered) -> list[Any]:
    """Return the hoisted constants, in input order. Private: `Lowering.const_args`."""
    lowering: Any = lowered._lowering
    return list(lowering.const_args)


def constant_array(value: Any) -> Any:
    """Return the array of a hoisted constant. Private: `TypedNdArray.val`, a view of numpy's."""
    return getattr(value, "val", value)


def module_bytes(lowered: jax.stages.Lowered) -> bytes:
    """Return the lowered module as MLIR bytecode; equal functions give equal bytes.

    Not private, but not documented by jax either: `compiler_ir` is an MLIR module of jaxlib.
    """
    buffer = io.BytesIO()
    module: Any = lowered.compiler_ir("stablehlo")
    module.operation.write_bytecode(buffer)
    return buffer.getvalue()


def has_host_callbacks(lowered: jax.stages.Lowered) -> bool:
    """Return whether a module calls Python by an index. Private: `_lowering.compile_args`."""
    lowering: Any = lowered._lowering
    return bool(lowering.compile_args.get("host_callbacks"))


def flat_out_shardings(compiled: jax.stages.Compiled) -> list[Any]:
    """Return the shardings of the flat outputs. Private: `_out_shardings`."""
    executable: Any = compiled._executable
    return list(executable._out_shardings)


def registered_custom_calls(platform: str) -> frozenset[str]:
    """Return the targets that Python registered for a platform, by its XLA name: `Host`, `CUDA`.

    Private: `xla_client.custom_call_targets`, and `xla_client._custom_callback` for those that are
    registered when a GPU's client starts.
    """
    waiting = xla_client._custom_callback.get(platform, ())
    names = (name for name, *_ in waiting)
    return frozenset((*xla_client.custom_call_targets(platform), *names))


def source_line(equation: Any) -> str:
    """Return `file:line in function` of the user's code behind an equation, or "".

    Private: `source_info_util.user_frame`.
    """
    frame = source_info_util.user_frame(equation.source_info.traceback)
    return f"{frame.file_name}:{frame.start_line} in {frame.function_name}" if frame else ""


def name_and_params(equation: Any) -> tuple[str, dict[str, Any]]:
    """Return the name and the parameters of an equation's primitive.

    Private: the parameter `_prim` of `call_hi_primitive`, which is a primitive with parameters of
    its own, as that of `jax.lax.custom_root` since jax 0.12.
    """
    inner = equation.params.get("_prim")
    if inner is None:
        return str(equation.primitive.name), equation.params
    return type(inner).__name__, dict(inner.params)


def argument_leaves(traced: jax.stages.Traced) -> int:
    """Return the number of leaves of a trace's arguments. Private: `_in_tree`.

    The public `args_info` makes their trees, which a type may refuse or change.
    """
    return int(traced._in_tree.num_leaves)


def is_mutable_ref(value: Any) -> bool:
    """Return whether a value is a mutable array (`jax.new_ref`). Private: `core.Ref`."""
    return isinstance(value, core.Ref)


def is_internal_effect(effect: Any) -> bool:
    """Return whether an effect stays inside the function, as that of a mutable array made there.

    Private: `core.InternalMutableArrayEffect`. XLA sees values only; jit takes it too.
    """
    return isinstance(effect, core.InternalMutableArrayEffect)


def is_jitted(function: Any) -> bool:
    """Return whether `jax.jit` made a function. Private: `PjitFunction`, its type."""
    return isinstance(function, _jax.PjitFunction)


def jit_options(function: Any) -> dict[str, Any]:
    """Return the options that `jax.jit` made a function with, by name; none if it did not.

    Private: `_jit_info`.
    """
    options = getattr(function, "_jit_info", None) if is_jitted(function) else None
    return dict(options._asdict()) if options is not None else {}
