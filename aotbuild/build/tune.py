"""Tune a manifest's functions on this machine's devices, for builds on machines without them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.version import Version

from aotbuild.build.events import Listener
from aotbuild.build.executors.chosen import LOCAL
from aotbuild.build.executors.driver import run_units
from aotbuild.build.plan import Plan, make_plan
from aotbuild.build.sources import SourceTree
from aotbuild.errors import BuildError, PlanError
from aotbuild.manifest import Function, Manifest
from aotbuild.manifest.model import Keep
from aotbuild.platforms.building import LocalDevices, Tuner
from aotbuild.toolchains.toolchain import Environment


@dataclass(frozen=True)
class Tuning:
    """What to compile on this machine's devices, and the folder for what each unit finds.

    `notes` say which functions need more devices.
    """

    tuner: Tuner
    plan: Plan
    folder: Path
    notes: tuple[str, ...]


def plan_tuning(
    manifest: Manifest, environment: Environment, tuner: Tuner, local: LocalDevices, folder: Path
) -> Tuning:
    """Plan to compile a manifest's functions on devices of this machine.

    PlanError where the jax that is installed is none that the manifest builds with: results are for
    one version of jax.
    """
    _check_jax(manifest, environment, tuner)
    fitting = {n: f for n, f in manifest.functions.items() if f.devices <= local.count}
    notes = tuple(
        f"functions.{name}: not tuned: its mesh has {f.devices} devices, here are {local.count}"
        for name, f in manifest.functions.items()
        if name not in fitting
    )
    if not fitting:
        raise PlanError("\n".join([f"{manifest.file}: nothing of it can be tuned here", *notes]))
    variables = tuner.variables(os.environ)
    here = manifest.model_copy(
        update={
            "targets": (local.request,),
            "toolchains": (),
            "functions": {name: _on_devices(f, variables) for name, f in fitting.items()},
            "keep": Keep(stages=()),
        }
    )
    plan = make_plan(here, environment)
    units = tuple(
        replace(unit, hardware=tuner.into(unit.hardware, folder / f"{number}.txt"))
        for number, unit in enumerate(plan.units)
    )
    return Tuning(tuner, replace(plan, units=units), folder, notes)


def tune(tuning: Tuning, sources: SourceTree, listener: Listener) -> tuple[str, int]:
    """Compile what was planned, with XLA trying its choices, and return them as text and counted.

    Raises:
        BuildError: if a unit failed.
        PlanError: if XLA had nothing to choose.
    """
    plan, blobs = tuning.plan, tuning.folder / "blobs"
    blobs.mkdir()
    # Here, whatever AOTBUILD_EXECUTOR says: other machines may have other devices.
    done = run_units(plan, sources, blobs, listener, LOCAL)
    failures = [result.failure for result in done if result.failure]
    if failures:
        raise BuildError(failures, len(done))
    files = sorted(tuning.folder.glob("*.txt"))
    text, count = tuning.tuner.read(files, plan.units[0].hardware.kind)
    if not count:
        msg = (
            f"{plan.manifest.file}: XLA found nothing to choose in these functions, so there is "
            "nothing to write; leave autotune: out of the target"
        )
        raise PlanError(msg)
    return text, count


def _check_jax(manifest: Manifest, environment: Environment, tuner: Tuner) -> None:
    (toolchain,) = environment.toolchains
    wanted = [request.jax for request in manifest.toolchains]
    if wanted and Version(toolchain.jax) not in map(Version, wanted):
        msg = (
            f"{manifest.file}: toolchains: expected jax {', '.join(wanted)}, found "
            f"{toolchain.jax}; results are for one jax: install {tuner.install(wanted[0])} here"
        )
        raise PlanError(msg)


def _on_devices(function: Function, variables: Mapping[str, str]) -> Function:
    """Return the function for workers that see the devices, and that make no golden outputs."""
    verify = function.verify.model_copy(update={"golden": "never"})
    return function.model_copy(update={"env": {**function.env, **variables}, "verify": verify})
