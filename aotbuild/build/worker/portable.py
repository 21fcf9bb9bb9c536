"""Export a trace as portable StableHLO: one artifact for several platforms, compiled where it runs."""

from __future__ import annotations

from typing import Any

import jax
from jax import export

from aotbuild.build.worker.avals import to_aval
from aotbuild.build.worker.blobs import BlobFolder
from aotbuild.build.worker.native import jit_flat
from aotbuild.build.worker.shardings import in_specs, out_specs
from aotbuild.build.worker.trace import Traced, in_mesh
from aotbuild.errors import TraceRefused
from aotbuild.spec.record import Calling, Record, Requirements
from aotbuild.spec.target import Target


def export_portable(
    traced: Traced, target: Target, blobs: BlobFolder, provenance: Any
) -> Record:
    """Return the record of an exported function, its bytes written to `blobs`.

    Where dims are symbolic, the avals with their names are kept as `provenance["symbolic_leaves"]`.
    """
    options = traced.job.export
    try:
        with in_mesh(traced.mesh):
            exported = export.export(
                jit_flat(traced),
                platforms=target.platforms,
                disabled_checks=[_check(name) for name in options.disabled_checks],
            )(*traced.leaves)
        data = bytes(exported.serialize(vjp_order=options.vjp_order))
    except Exception as err:  # jax.export raises many types for what it cannot carry
        msg = (
            f"{traced.job.call} cannot be exported for {', '.join(target.platforms)}: "
            f"{type(err).__name__}: {err}\n"
            "Leave out the platform, or allow the custom call under export: disabled_checks."
        )
        raise TraceRefused(msg) from err
    return Record(
        function=traced.job.name,
        signature=traced.signature,
        target=target,
        blob=blobs.add("stablehlo", data),
        requires=_requirements(target),
        calling=_calling(traced),
        provenance={**provenance, **_export_facts(exported, traced)},
    )


def _requirements(target: Target) -> Requirements:
    x64 = bool(jax.config.jax_enable_x64)
    return Requirements(platforms=target.platforms, devices=target.devices, x64=x64)


def _calling(traced: Traced) -> Calling:
    outputs = [out for out in traced.outputs if all(isinstance(d, int) for d in out.shape)]
    symbolic = len(outputs) != len(traced.outputs)
    mesh = traced.mesh
    return Calling(
        name=traced.job.name,
        constants=(),
        kept=tuple(range(len(traced.leaves))),
        donated=traced.donated,
        in_specs=in_specs(traced) if mesh else (),
        outputs=() if symbolic else tuple(map(to_aval, traced.closed_jaxpr.out_avals)),
        out_specs=(out_specs(traced) or ()) if mesh else (),
        out_tree=traced.out_tree,
        mesh=traced.job.mesh,
    )


def _export_facts(exported: Any, traced: Traced) -> dict[str, Any]:
    facts = {
        "calling_convention_version": exported.calling_convention_version,
        "vjp_order": traced.job.export.vjp_order,
    }
    if traced.job.sample:
        facts["symbolic_leaves"] = [str(aval) for aval in exported.in_avals]
    return facts


def _check(name: str) -> Any:
    """Return the safety check that a manifest disables by name."""
    kind, _, target = name.partition(":")
    if kind == "platform":
        return export.DisabledSafetyCheck.platform()
    return export.DisabledSafetyCheck.custom_call(target)
