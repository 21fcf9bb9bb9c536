"""Tune a manifest's functions on this machine's GPU, for builds on machines that have none."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.version import Version

from aotbuild.build.executors.local import run_units
from aotbuild.build.plan import BuildUnit, Plan, make_plan, mesh_size
from aotbuild.build.progress import Listener
from aotbuild.build.sources import SourceTree
from aotbuild.errors import BuildError, PlanError
from aotbuild.manifest import FunctionEntry, Manifest
from aotbuild.manifest.types import KeepOptions
from aotbuild.platforms.building import Request
from aotbuild.platforms.cuda.describe import CudaOptions, GpuFiles
from aotbuild.platforms.cuda.hardware import TUNING_TO
from aotbuild.platforms.cuda.presets import GpuPreset
from aotbuild.platforms.cuda.tuning_results import TuningResults, merge
from aotbuild.toolchains.toolchain import Environment

# The name of this machine's GPU in a target, which is in no package.
LOCAL_GPU = "this-machine"
# What a worker here must see, and one that compiles for absent GPUs must not.
_KEPT_VARIABLES = ("CUDA_VISIBLE_DEVICES",)


@dataclass(frozen=True)
class Tuning:
    """What to compile on this machine's GPUs, and the folder for what each unit finds.

    `notes` tell which functions do not fit on them.
    """

    plan: Plan
    folder: Path
    notes: tuple[str, ...]


def plan_tuning(
    manifest: Manifest, environment: Environment, gpu: GpuPreset, devices: int, folder: Path
) -> Tuning:
    """Plan to compile a manifest's functions on this machine's GPUs, as many as `devices`.

    PlanError where the jax that is installed is none that the manifest builds with: results are for
    one version of jax.
    """
    _check_jax(manifest, environment)
    fitting = tuple(f for f in manifest.functions if mesh_size(f) <= devices)
    notes = tuple(
        f"functions.{f.name}: not tuned: its mesh has {mesh_size(f)} devices, here are {devices}"
        for f in manifest.functions
        if f not in fitting
    )
    if not fitting:
        raise PlanError("\n".join([f"{manifest.file}: nothing of it can be tuned here", *notes]))
    local = replace(
        manifest,
        targets=(Request("cuda", CudaOptions.model_construct(gpu=[gpu.name]), GpuFiles((gpu,))),),
        toolchains=(),
        functions=tuple(_on_gpu(f, os.environ) for f in fitting),
        keep=KeepOptions(),
    )
    plan = make_plan(local, environment)
    units = tuple(_into(unit, folder / f"{n}.txt") for n, unit in enumerate(plan.units))
    return Tuning(replace(plan, units=units), folder, notes)


def tune(tuning: Tuning, sources: SourceTree, listener: Listener) -> TuningResults:
    """Compile what was planned, with XLA trying its choices on the GPU, and return what it chose.

    Raises:
        BuildError: if a unit failed.
        PlanError: if XLA had nothing to choose.
    """
    plan, blobs = tuning.plan, tuning.folder / "blobs"
    blobs.mkdir()
    done = run_units(plan, sources, blobs, listener)
    failures = [result.failure for result in done if result.failure]
    if failures:
        raise BuildError(failures, len(done))
    results = _read(tuning.folder, plan.units[0].hardware.kind)
    if not results.entries:
        msg = (
            f"{plan.manifest.file}: XLA found nothing to choose in these functions, so there is "
            "nothing to write; leave autotune: out of the target"
        )
        raise PlanError(msg)
    return results


def _check_jax(manifest: Manifest, environment: Environment) -> None:
    (toolchain,) = environment.toolchains
    wanted = [request.jax for request in manifest.toolchains]
    if wanted and Version(toolchain.jax) not in map(Version, wanted):
        msg = (
            f"{manifest.file}: toolchains: expected jax {', '.join(wanted)}, found "
            f"{toolchain.jax}; results are for one jax: install jax[cuda13]=={wanted[0]} here"
        )
        raise PlanError(msg)


def _on_gpu(function: FunctionEntry, inherited: Mapping[str, str]) -> FunctionEntry:
    """Return the function for workers that see the GPU, and that make no golden outputs."""
    kept = tuple((name, inherited[name]) for name in _KEPT_VARIABLES if name in inherited)
    env = (*function.env, ("JAX_PLATFORMS", "cuda,cpu"), *kept)
    return replace(function, env=env, verify=replace(function.verify, golden="never"))


def _into(unit: BuildUnit, file: Path) -> BuildUnit:
    hardware = replace(unit.hardware, description=((TUNING_TO, str(file)),))
    return replace(unit, hardware=hardware)


def _read(folder: Path, device_kind: str) -> TuningResults:
    """Join what the workers wrote; who had nothing to choose wrote nothing."""
    return merge(_results(folder.glob("*.txt")), device_kind)


def _results(files: Iterable[Path]) -> Iterable[TuningResults]:
    for file in sorted(files):
        text = file.read_text(encoding="utf-8")
        if "results" in text:
            yield TuningResults.parse(text)
