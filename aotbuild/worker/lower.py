"""Lower a trace: for the devices of a target, or exported as StableHLO for several platforms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax import export
from jax.extend.core import jaxpr_as_fun
from jax.sharding import SingleDeviceSharding

from aotbuild.build.jobs import Job
from aotbuild.errors import TraceRefused
from aotbuild.format.canonical import sha256_hex
from aotbuild.format.record import Calling, Record, Requirements
from aotbuild.format.target import Target
from aotbuild.platforms.building import Hardware, compiler
from aotbuild.worker import private as jax_private
from aotbuild.worker.blobs import BlobFolder
from aotbuild.worker.jaxprs import meshes, refuse_callbacks
from aotbuild.worker.jitted import in_mesh
from aotbuild.worker.leaves import to_aval
from aotbuild.worker.shardings import Spec, named_sharding
from aotbuild.worker.specs import Dims
from aotbuild.worker.trace import Traced, asks_for_device, trace, trace_on
from aotbuild.worker.user_errors import mesh_remedy, user_traceback


@dataclass(frozen=True)
class Lowered:
    """A trace and its module for a target. `stage` is the `jax.stages.Lowered`.

    `traced` may be another trace than the job's first: over the target's devices.
    """

    traced: Traced
    target: Target
    hardware: Hardware
    stage: Any

    @property
    def digest(self) -> str:
        """The SHA-256 of the module."""
        return sha256_hex(jax_private.module_bytes(self.stage))

    @property
    def constants(self) -> list[Any]:
        """The hoisted constants, which are the executable's first inputs."""
        return jax_private.const_args(self.stage)

    @property
    def kept(self) -> tuple[int, ...]:
        """The indices of inputs that the executable takes, constants counted first."""
        return jax_private.kept_inputs(self.stage)

    def compile(self, options: Mapping[str, Any]) -> Any:
        """Return the `jax.stages.Compiled`, made with these options of XLA; TraceRefused if not."""
        job = self.traced.job
        try:
            with in_mesh(self.traced.context):
                return self.stage.compile(compiler_options=dict(options) or None)
        except Exception as err:  # XLA and its options raise many types
            hint = ""
            if job.function.compiler_options:
                listing = ", ".join(
                    f"{name}: {value!r}" for name, value in job.function.compiler_options.items()
                )
                hint = f"\nIt was compiled with compiler_options {{{listing}}}; try without them."
            where = f"{job.call} cannot be compiled for {self.target}"
            remedy = mesh_remedy(err)
            hint += f"\n{remedy}" if remedy else ""
            msg = f"{where}\n{user_traceback(err)}{hint}"
            raise TraceRefused(msg) from err


def lower(traced: Traced, target: Target, hardware: Hardware) -> Lowered:
    """Lower a trace for a target; trace again where the mesh or a kernel needs its devices.

    TraceRefused says what cannot be lowered, or what is missing to compile for these devices.
    """
    devices = compiler(target.platform).devices(target, hardware, jax_private)
    if devices[0].platform == jax.devices()[0].platform:
        return _lower_here(traced, target, hardware, devices)
    try:
        return _lower_there(traced, target, hardware, devices)
    except TraceRefused:
        if not any(meshes(traced.closed_jaxpr)):
            raise
    return _lower_here(traced, target, hardware, devices, (target.platform,))


def _lower_there(
    traced: Traced, target: Target, hardware: Hardware, devices: Sequence[Any]
) -> Lowered:
    """Lower for GPUs or TPUs, traced over them where there is a mesh or a kernel asks for them."""
    job = traced.job
    if traced.mesh is not None:
        traced = trace(job, devices=devices)
    try:
        stage = _lower(traced, target, devices[0])
    except TraceRefused as err:
        if not asks_for_device(traced.job, err):
            raise
        traced = trace_on(job, devices)
        stage = _lower(traced, target, devices[0])
    return Lowered(traced, target, hardware, stage)


def _lower_here(
    traced: Traced,
    target: Target,
    hardware: Hardware,
    devices: Sequence[Any],
    platforms: tuple[str, ...] | None = None,
) -> Lowered:
    """Lower for this process's devices, as any mesh that the user's code made has them.

    Then the module is compiled for the target's, which may be absent, and of other `platforms`.
    """
    stage = _lower(traced, target, jax.devices()[0], platforms)
    jax_private.move(stage, devices)
    return Lowered(traced, target, hardware, stage)


def jit_flat(traced: Traced, device: Any = None) -> Any:
    """Return `jax.jit` of the flat function: leaves in, leaves out, with the job's options.

    `device` is the one to compile for where there is no mesh; None leaves it open.
    """
    options: dict[str, Any] = {}
    if traced.mesh is not None:
        mesh = traced.mesh
        options["in_shardings"] = [named_sharding(mesh, spec) for spec in traced.in_specs]
        options["out_shardings"] = [
            None if spec is None else named_sharding(mesh, spec) for spec in traced.out_specs
        ]
    elif device is not None:
        # As jit itself: a sharding of the results would stand in the module, and XLA would find no
        # tuning result for the instruction that makes the only one.
        side = "in_shardings" if traced.leaves else "out_shardings"
        options[side] = SingleDeviceSharding(device)
    options["keep_unused"] = traced.job.function.keep_unused
    return jit_leaves(traced.job.name, traced.closed_jaxpr, traced.donated, options)


def jit_leaves(
    name: str, closed_jaxpr: Any, donated: Sequence[int], options: Mapping[str, Any]
) -> Any:
    """Return `jax.jit` of a flat jaxpr; the bytes of its module depend on every name in here."""
    function = jaxpr_as_fun(closed_jaxpr)

    def flat(*leaves: Any) -> Any:
        return function(*leaves)

    flat.__name__ = flat.__qualname__ = name
    return jax.jit(flat, donate_argnums=tuple(donated), **options)


def _lower(
    traced: Traced, target: Target, device: Any, platforms: tuple[str, ...] | None = None
) -> Any:
    try:
        with in_mesh(traced.context):
            stage = (
                jit_flat(traced, device).trace(*traced.leaves).lower(lowering_platforms=platforms)
            )
            if jax_private.has_host_callbacks(stage):
                refuse_callbacks(traced.job, traced.closed_jaxpr, target.platform)
            return stage
    except TraceRefused:
        raise
    except Exception as err:  # lowering rules raise many types
        msg = f"{traced.job.call} cannot be lowered for {target.platform}\n{user_traceback(err)}"
        remedy = mesh_remedy(err)
        raise TraceRefused(f"{msg}\n{remedy}" if remedy else msg) from err


def export_portable(traced: Traced, target: Target, blobs: BlobFolder, provenance: Any) -> Record:
    """Return the record of an exported function, its bytes written to `blobs`.

    Avals with symbolic dims are kept as `provenance["symbolic_leaves"]`.
    """
    found = exported(traced, target)
    data = bytes(found.serialize())  # no derivatives: those come from the source
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
    }
    if traced.job.symbolic:
        facts["symbolic_leaves"] = [str(aval) for aval in exported.in_avals]
    # jax.export drops the weak types of results (jax 0.10.2 and 0.12.0.1).
    weak = [at for at, aval in enumerate(traced.closed_jaxpr.out_avals) if aval.weak_type]
    return {**facts, "weak_outputs": weak} if weak else facts


def _check(name: str) -> Any:
    """Return the safety check that a manifest disables by name."""
    kind, _, target = name.partition(":")
    if kind == "platform":
        return export.DisabledSafetyCheck.platform()
    return export.DisabledSafetyCheck.custom_call(target)
