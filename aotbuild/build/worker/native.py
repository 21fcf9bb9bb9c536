"""Lower and compile a trace for this process's CPU level; serialize; write the record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
from jax.extend.core import jaxpr_as_fun

from aotbuild.build import jax_private
from aotbuild.build.worker.avals import to_aval
from aotbuild.build.worker.blobs import BlobFolder
from aotbuild.build.worker.constants import store_constants
from aotbuild.build.worker.custom_calls import CustomCalls
from aotbuild.build.worker.shardings import Spec, in_specs, named_sharding, out_specs, specs_of
from aotbuild.build.worker.trace import Traced, in_mesh
from aotbuild.build.worker.user_errors import user_traceback
from aotbuild.errors import TraceRefused
from aotbuild.spec.record import Calling, Record, Requirements
from aotbuild.spec.target import Target


def jit_flat(traced: Traced, **options: Any) -> Any:
    """Return `jax.jit` of the flat function: leaves in, leaves out, with the job's options."""
    function = jaxpr_as_fun(traced.closed_jaxpr)

    def flat(*leaves: Any) -> Any:
        return function(*leaves)

    flat.__name__ = flat.__qualname__ = traced.job.name
    if traced.mesh is not None:
        mesh = traced.mesh
        options["in_shardings"] = [named_sharding(mesh, spec) for spec in in_specs(traced)]
        outs = out_specs(traced)
        if outs is not None:
            options["out_shardings"] = [named_sharding(mesh, spec) for spec in outs]
    return jax.jit(
        flat, donate_argnums=traced.donated, keep_unused=traced.job.keep_unused, **options
    )


def compile_native(
    traced: Traced, target: Target, blobs: BlobFolder, calls: CustomCalls, provenance: Any
) -> Record:
    """Return the record of a native executable, its bytes and constants written to `blobs`."""
    compiled = _compile(traced)
    if jax_private.has_host_callbacks(compiled):
        msg = f"{traced.job.call} calls back into Python; no executable on disk can carry that"
        raise TraceRefused(msg)
    data = jax_private.serialize_executable(compiled)
    return Record(
        function=traced.job.name,
        signature=traced.signature,
        target=target,
        blob=blobs.add("pjrt", data),
        requires=_requirements(target, calls.of(compiled.as_text() or "")),
        calling=_calling(traced, compiled, blobs),
        analysis=_analysis(compiled),
        provenance=provenance,
    )


def _compile(traced: Traced) -> Any:
    options, jitted = dict(traced.job.compiler_options), jit_flat(traced)
    try:
        with in_mesh(traced.mesh):
            lowered = jitted.trace(*traced.leaves).lower()
            return lowered.compile(compiler_options=options or None)
    except Exception as err:  # lowering rules, XLA and its options raise many types
        hint = ""
        if options:
            listing = ", ".join(f"{name}: {value!r}" for name, value in options.items())
            hint = f"\nIt was compiled with compiler_options {{{listing}}}; try without them."
        msg = f"{traced.job.call} cannot be compiled for the CPU\n{user_traceback(err)}{hint}"
        raise TraceRefused(msg) from err


def _requirements(target: Target, custom_calls: Any) -> Requirements:
    from jaxlib import version

    return Requirements(
        platforms=target.platforms,
        devices=target.devices,
        isa=target.detail,
        jaxlib=version.__version__,
        x64=bool(jax.config.jax_enable_x64),
        custom_calls=custom_calls,
    )


def _calling(traced: Traced, compiled: Any, blobs: BlobFolder) -> Calling:
    return Calling(
        name=traced.job.name,
        constants=store_constants(jax_private.const_args(compiled), blobs),
        kept=jax_private.kept_inputs(compiled),
        donated=traced.donated,
        in_specs=in_specs(traced) if traced.mesh else (),
        outputs=tuple(map(to_aval, traced.closed_jaxpr.out_avals)),
        out_specs=_out_specs(traced, compiled),
        out_tree=traced.out_tree,
        mesh=traced.job.mesh,
    )


def _out_specs(traced: Traced, compiled: Any) -> tuple[Spec, ...]:
    if traced.mesh is None:
        return ()
    given = out_specs(traced)
    shardings = jax_private.flat_out_shardings(compiled)
    return given if given is not None else specs_of(traced.job.name, shardings, traced.mesh)


def _analysis(compiled: Any) -> dict[str, Any]:
    """Return XLA's estimates: FLOPs, bytes accessed, and sizes of the buffers in bytes."""
    cost: Mapping[str, float] = compiled.cost_analysis() or {}
    memory = compiled.memory_analysis()
    names = ("argument", "output", "temp", "alias", "generated_code")
    sizes = {f"{name}_bytes": getattr(memory, f"{name}_size_in_bytes", None) for name in names}
    return {
        "flops": cost.get("flops"),
        "bytes_accessed": cost.get("bytes accessed"),
        **{name: size for name, size in sizes.items() if size is not None},
    }
