"""Export a trace as portable StableHLO: one artifact for several platforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax import export

from aotbuild.build.jobs import Job
from aotbuild.errors import TraceRefused
from aotbuild.format.canonical import sha256_hex
from aotbuild.format.record import Calling, Record, Requirements
from aotbuild.format.target import Target
from aotbuild.worker.blobs import BlobFolder
from aotbuild.worker.jitted import in_mesh
from aotbuild.worker.leaves import to_aval
from aotbuild.worker.lower import jit_flat
from aotbuild.worker.shardings import Spec
from aotbuild.worker.specs import Dims
from aotbuild.worker.trace import Traced
from aotbuild.worker.user_errors import user_traceback


def export_portable(traced: Traced, target: Target, blobs: BlobFolder, provenance: Any) -> Record:
    """Return the record of an exported function, its bytes written to `blobs`.

    Avals with symbolic dims are kept as `provenance["symbolic_leaves"]`.
    """
    found = exported(traced, target)
    data = _serialize(traced, found)
    return Record(
        function=traced.job.name,
        signature=traced.signature,
        target=target,
        blob=blobs.add("stablehlo", data),
        requires=_requirements(target),
        calling=_calling(traced),
        provenance={**provenance, **_export_facts(found, traced)},
    )


def symbolic_dims(job: Job) -> Dims:
    """Return the function that makes symbolic dims of a job's expressions, in one scope."""
    where, constraints = f"functions.{job.name}.export", job.function.export.constraints
    try:
        scope = export.SymbolicScope(constraints)
    except ValueError as err:
        msg = f"{where}.constraints: jax refuses {', '.join(map(repr, constraints))}: {err}"
        raise TraceRefused(msg) from err

    def dim(text: str) -> Any:
        try:
            return export.symbolic_shape(text, scope=scope)[0]
        except ValueError as err:
            msg = f"{where}.dims: jax refuses {text!r}: {err}"
            raise TraceRefused(msg) from err

    return dim


def exported(traced: Traced, target: Target) -> export.Exported:
    """Return the function as `jax.export` gives it; TraceRefused if it cannot be exported."""
    checks = [_check(name) for name in traced.job.function.export.disabled_checks]
    jitted = jit_flat(traced)
    try:
        with in_mesh(traced.context):
            exporter = export.export(jitted, platforms=target.platforms, disabled_checks=checks)
            return exporter(*traced.leaves)
    except Exception as err:  # jax.export raises many types for what it cannot export
        msg = (
            f"{traced.job.call} cannot be exported for {', '.join(target.platforms)}\n"
            f"{user_traceback(err)}\n"
            "Leave out the platform, or allow the custom call under export: disabled_checks."
        )
        raise TraceRefused(msg) from err


def _serialize(traced: Traced, exported: export.Exported) -> bytes:
    """Return the artifact; derivatives up to `vjp_order` are traced here."""
    order = traced.job.function.export.vjp_order
    try:
        return bytes(exported.serialize(vjp_order=order))
    except Exception as err:  # differentiating raises many types
        msg = (
            f"{traced.job.call} was exported, but not its derivatives of order {order}\n"
            f"{user_traceback(err)}\nSet export: {{vjp_order: 0}} if nobody differentiates it."
        )
        raise TraceRefused(msg) from err


def _requirements(target: Target) -> Requirements:
    x64 = bool(jax.config.jax_enable_x64)
    return Requirements(platforms=target.platforms, devices=target.devices, x64=x64)


def _all_given(specs: Sequence[Spec | None]) -> tuple[Spec, ...]:
    """Return the specs of outputs, none if XLA chooses some: it does so where it compiles."""
    given = tuple(spec for spec in specs if spec is not None)
    return given if len(given) == len(specs) else ()


def _calling(traced: Traced) -> Calling:
    outputs = [out for out in traced.outputs if all(isinstance(d, int) for d in out.shape)]
    symbolic = len(outputs) != len(traced.outputs)
    return Calling(
        name=traced.job.name,
        constants=(),
        kept=tuple(range(len(traced.leaves))),
        donated=traced.donated,
        in_specs=traced.in_specs,
        outputs=() if symbolic else tuple(map(to_aval, traced.closed_jaxpr.out_avals)),
        out_specs=_all_given(traced.out_specs),
        out_tree=traced.out_tree,
        templates=traced.templates,
        mesh=tuple(traced.job.function.mesh.items()),
        explicit_axes=traced.job.function.explicit_axes,
    )


def _export_facts(exported: Any, traced: Traced) -> dict[str, Any]:
    facts = {
        "stablehlo": sha256_hex(exported.mlir_module_serialized),
        "calling_convention_version": exported.calling_convention_version,
        "vjp_order": traced.job.function.export.vjp_order,
    }
    if traced.job.symbolic:
        facts["symbolic_leaves"] = [str(aval) for aval in exported.in_avals]
    return facts


def _check(name: str) -> Any:
    """Return the safety check that a manifest disables by name."""
    kind, _, target = name.partition(":")
    if kind == "platform":
        return export.DisabledSafetyCheck.platform()
    return export.DisabledSafetyCheck.custom_call(target)
