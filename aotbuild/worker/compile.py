"""Lower and compile a trace for a target; serialize; write the record."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
from jax.extend.core import jaxpr_as_fun
from jax.sharding import SingleDeviceSharding
from jaxlib.version import __version__ as jaxlib_version

from aotbuild.build.startup import FlagSet
from aotbuild.errors import TraceRefused
from aotbuild.platforms.building import Hardware
from aotbuild.platforms.cuda.hardware import tuning_to
from aotbuild.platforms.registry import platform
from aotbuild.spec.canonical import sha256_hex
from aotbuild.spec.record import Calling, CustomCall, Record, Requirements
from aotbuild.spec.record_json import specs_from_json, specs_to_json
from aotbuild.spec.target import Target
from aotbuild.store.local import Entry, Store
from aotbuild.worker import private as jax_private
from aotbuild.worker.avals import to_aval
from aotbuild.worker.blobs import BlobFolder, store_constants
from aotbuild.worker.compile_once import compile_once, decisive_inputs
from aotbuild.worker.shardings import Spec, in_specs, named_sharding, out_specs, specs_of
from aotbuild.worker.stages import Stages, lowered_texts, summary
from aotbuild.worker.thunk_rewrite.rewrite import checked_lean
from aotbuild.worker.trace import Traced, asks_for_device, in_mesh, trace, trace_on
from aotbuild.worker.tuning.choose import (
    compile_chosen,
    donated_inputs,
    executable_inputs,
    startup_of,
    told,
)
from aotbuild.worker.tuning.measure import Measurer, measure
from aotbuild.worker.user_errors import user_traceback

_TARGET = re.compile(r'custom_call_target="([^"]+)"')
# XLA's names of platforms where Python registers native functions, by ours.
_XLA_PLATFORMS = {"cpu": "cpu", "cuda": "CUDA"}
# What jax itself registers, but not before somebody imports Pallas.
_PALLAS = ("mosaic_gpu",)


class CustomCalls:
    """Tells jax's own targets from the user's: what was registered before the user's code ran."""

    def __init__(self) -> None:
        names = _XLA_PLATFORMS.items()
        self._before_user = {n: jax_private.registered_custom_calls(xla) for n, xla in names}

    def of(self, hlo: str, platform: str) -> tuple[CustomCall, ...]:
        """Return the targets in the text of an optimized HLO module, sorted."""
        found = sorted(set(_TARGET.findall(hlo)))
        return tuple(CustomCall(target, self._provider(target, platform)) for target in found)

    def _provider(self, target: str, platform: str) -> str:
        if target.startswith("lapack_"):
            return "lapack"
        if target in self._before_user.get(platform, ()) or target.startswith(_PALLAS):
            return "jax"
        xla_name = _XLA_PLATFORMS.get(platform)
        if xla_name and target in jax_private.registered_custom_calls(xla_name):
            return "user"
        return "xla"


def jit_flat(traced: Traced, device: Any = None) -> Any:
    """Return `jax.jit` of the flat function: leaves in, leaves out, with the job's options.

    `device` is the one to compile for where there is no mesh; None leaves it open.
    """
    options: dict[str, Any] = {}
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
    elif device is not None:
        options["in_shardings"] = options["out_shardings"] = SingleDeviceSharding(device)
    return jax.jit(
        flat, donate_argnums=traced.donated, keep_unused=traced.job.keep_unused, **options
    )


@dataclass(frozen=True)
class NativeCompiler:
    """Makes executables, or takes them from the store."""

    blobs: BlobFolder
    calls: CustomCalls
    store: Store | None
    stages: Stages
    measurer: Measurer = measure

    def compile(
        self, traced: Traced, target: Target, hardware: Hardware, provenance: dict[str, Any]
    ) -> Record:
        """Return the record of an executable, its bytes and constants written to `blobs`."""
        there = platform(target.platform)
        devices = there.devices(target, hardware)
        options = there.compiler_options(target, hardware)
        startup = startup_of(traced.job.startup, target)
        if traced.mesh is not None and list(traced.mesh.devices.flat) != list(devices):
            # The mesh is in the jaxpr. That tracing is without side effects is known by now.
            traced = trace(replace(traced.job, purity="skip"), devices=devices)
        traced, lowered = _lower_there(traced, target, devices)
        module = sha256_hex(jax_private.module_bytes(lowered))
        own = {"stablehlo": module, **there.provenance(hardware)}
        provenance = {**provenance, **own}
        # Before compiling, which may change the module.
        kept = self.stages.keep(lowered_texts(traced, lowered))

        def compile_with(flags: FlagSet) -> tuple[Entry, Any]:
            # What the manifest says wins.
            chosen = {**options, **dict(flags.options), **dict(traced.job.compiler_options)}
            compiled = _compile(traced, lowered, target, chosen)
            return self._entry(traced, lowered, compiled, target, hardware), compiled

        def compile_now() -> tuple[Entry, Any]:
            donated = donated_inputs(traced, lowered)
            arrays = partial(executable_inputs, traced, lowered)
            return compile_chosen(startup, compile_with, self.measurer, arrays, donated)

        inputs = decisive_inputs(target, hardware, provenance, startup)
        with_stages = self.stages.need_compiling
        # Tuning is done for what it finds, which no store keeps.
        store = None if tuning_to(hardware) else self.store
        entry, texts = compile_once(store, inputs, compile_now, with_stages=with_stages)
        calls = tuple(CustomCall(*call) for call in entry.facts["custom_calls"])
        return Record(
            function=traced.job.name,
            signature=traced.signature,
            target=target,
            blob=self.blobs.add("pjrt", entry.data),
            requires=_requirements(target, calls, entry.facts["requires"]),
            calling=self._calling(traced, lowered, entry),
            analysis=entry.facts["analysis"],
            provenance={**provenance, **told(entry)},
            stages=(*kept, *self.stages.keep(texts)),
        )

    def _entry(
        self, traced: Traced, lowered: Any, compiled: Any, target: Target, hardware: Hardware
    ) -> Entry:
        hlo = compiled.as_text() or ""
        calls = self.calls.of(hlo, target.platform)
        data = checked_lean(jax_private.serialize_executable(compiled), target)
        facts = {
            "requires": platform(target.platform).requirements(target, hardware, data, hlo),
            "custom_calls": [[call.target, call.provider] for call in calls],
            "analysis": summary(compiled, lowered, target.devices, with_calls=bool(calls)),
            "out_specs": specs_to_json(_out_specs(traced, compiled)),
        }
        return Entry(facts, data)

    def _calling(self, traced: Traced, lowered: Any, entry: Entry) -> Calling:
        return Calling(
            name=traced.job.name,
            constants=store_constants(jax_private.const_args(lowered), self.blobs),
            kept=jax_private.kept_inputs(lowered),
            donated=traced.donated,
            in_specs=in_specs(traced) if traced.mesh else (),
            outputs=tuple(map(to_aval, traced.closed_jaxpr.out_avals)),
            out_specs=specs_from_json(entry.facts["out_specs"]),
            out_tree=traced.out_tree,
            mesh=traced.job.mesh,
        )


def _lower_there(traced: Traced, target: Target, devices: Sequence[Any]) -> tuple[Traced, Any]:
    """Return the trace and what it is lowered to; traced anew where a kernel needs its device."""
    try:
        return traced, _lower(traced, target, devices[0])
    except TraceRefused as err:
        if not asks_for_device(traced.job, err):
            raise
    # That tracing is without side effects is known by now.
    traced = trace_on(replace(traced.job, purity="skip"), devices)
    return traced, _lower(traced, target, devices[0])


def _lower(traced: Traced, target: Target, device: Any) -> Any:
    try:
        with in_mesh(traced.mesh):
            return jit_flat(traced, device).trace(*traced.leaves).lower()
    except TraceRefused:
        raise
    except Exception as err:  # lowering rules raise many types
        msg = f"{traced.job.call} cannot be lowered for {target.platform}\n{user_traceback(err)}"
        raise TraceRefused(msg) from err


def _compile(traced: Traced, lowered: Any, target: Target, options: dict[str, Any]) -> Any:
    try:
        with in_mesh(traced.mesh):
            compiled = lowered.compile(compiler_options=options or None)
    except Exception as err:  # XLA and its options raise many types
        hint = ""
        given = traced.job.compiler_options
        if given:
            listing = ", ".join(f"{name}: {value!r}" for name, value in given)
            hint = f"\nIt was compiled with compiler_options {{{listing}}}; try without them."
        msg = f"{traced.job.call} cannot be compiled for {target}\n{user_traceback(err)}{hint}"
        raise TraceRefused(msg) from err
    if jax_private.has_host_callbacks(compiled):
        msg = f"{traced.job.call} calls back into Python; no executable on disk can carry that"
        raise TraceRefused(msg)
    return compiled


def _requirements(
    target: Target, custom_calls: tuple[CustomCall, ...], own: dict[str, Any]
) -> Requirements:
    """Return what every platform requires, and what is a platform's `own` as JSON has it."""
    fields: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in own.items()}
    return Requirements(
        platforms=target.platforms,
        devices=target.devices,
        processes=target.processes,
        jaxlib=jaxlib_version,
        x64=bool(jax.config.jax_enable_x64),
        custom_calls=custom_calls,
        **fields,
    )


def _out_specs(traced: Traced, compiled: Any) -> tuple[Spec, ...]:
    if traced.mesh is None:
        return ()
    given = out_specs(traced)
    shardings = jax_private.flat_out_shardings(compiled)
    return given if given is not None else specs_of(traced.job.name, shardings, traced.mesh)
