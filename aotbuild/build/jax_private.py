"""Private names of jax and jaxlib that building needs; nowhere else on the build side.

Each was tried on jax/jaxlib 0.10.2 (Python 3.11) and 0.12.0.1 (Python 3.12).
"""

from __future__ import annotations

import io
from typing import Any

import jax
from jax._src import core, source_info_util
from jax._src.interpreters import mlir
from jax._src.lib import xla_client
from jax._src.random import prng
from jaxlib.mlir.dialects import stablehlo

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
    """Return the raw PJRT bytes of a compiled function.

    Private: `LoadedExecutable.client.serialize_executable`. The public
    jax.experimental.serialize_executable wraps these bytes in a pickle.
    """
    executable: Any = compiled.runtime_executable()
    return bytes(executable.client.serialize_executable(executable))


def kept_inputs(lowered: jax.stages.Lowered) -> tuple[int, ...]:
    """Return the indices of inputs that the executable takes. Private: `kept_var_idx`."""
    lowering: Any = lowered._lowering
    return tuple(sorted(lowering.compile_args["kept_var_idx"]))


def const_args(lowered: jax.stages.Lowered) -> list[Any]:
    """Return the hoisted constants, in input order. Private: `Lowering.const_args`."""
    lowering: Any = lowered._lowering
    return list(lowering.const_args)


def module_bytes(lowered: jax.stages.Lowered) -> bytes:
    """Return the lowered module as MLIR bytecode; equal functions give equal bytes.

    Not private, but not documented by jax either: `compiler_ir` is an MLIR module of jaxlib.
    """
    buffer = io.BytesIO()
    module: Any = lowered.compiler_ir("stablehlo")
    module.operation.write_bytecode(buffer)
    return buffer.getvalue()


def module_text(module: Any, most_elements: int) -> str:
    """Return an MLIR module as text; larger constants are written `dense_resource<__elided__>`.

    `compiler_ir` gives one, as in `module_bytes`.
    """
    options = {"large_elements_limit": most_elements, "large_resource_limit": most_elements}
    return str(module.operation.get_asm(enable_debug_info=False, **options)) + "\n"


def portable_text(data: bytes, most_elements: int) -> str:
    """Return the StableHLO of an `Exported.mlir_module_serialized`, as `module_text` does.

    Private: `mlir.make_ir_context`. The public `Exported.mlir_module` writes every constant out.
    """
    with mlir.make_ir_context() as context:
        module = stablehlo.deserialize_portable_artifact(context, data)
        return module_text(module, most_elements)


def has_host_callbacks(compiled: jax.stages.Compiled) -> bool:
    """Return whether Python is called back. Private: `UnloadedMeshExecutable.host_callbacks`."""
    executable: Any = compiled._executable
    return bool(executable._unloaded_executable.host_callbacks)


def flat_out_shardings(compiled: jax.stages.Compiled) -> list[Any]:
    """Return the shardings of the flat outputs. Private: `_out_shardings`."""
    executable: Any = compiled._executable
    return list(executable._out_shardings)


def registered_custom_calls() -> frozenset[str]:
    """Return the CPU targets that Python registered. Private: `xla_client.custom_call_targets`."""
    return frozenset(xla_client.custom_call_targets("cpu"))


def source_line(equation: Any) -> str:
    """Return `file:line in function` of the user's code behind an equation, or "".

    Private: `source_info_util.user_frame`.
    """
    frame = source_info_util.user_frame(equation.source_info.traceback)
    return f"{frame.file_name}:{frame.start_line} in {frame.function_name}" if frame else ""


def is_mutable_ref(value: Any) -> bool:
    """Return whether a value is a mutable array (`jax.new_ref`). Private: `core.Ref`."""
    return isinstance(value, core.Ref)


def is_internal_effect(effect: Any) -> bool:
    """Return whether an effect ends inside the function, as that of a mutable array made there.

    Private: `core.InternalMutableArrayEffect`. XLA sees values only; jit takes it too.
    """
    return isinstance(effect, core.InternalMutableArrayEffect)
