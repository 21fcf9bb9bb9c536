"""Tune a manifest's functions on this machine's devices, for builds on machines without them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from packaging.version import Version

from aotbuild.build.plan import Plan, make_plan
from aotbuild.build.progress import Listener
from aotbuild.build.project import SourceTree
from aotbuild.build.run_units import LOCAL, BuildOptions, run_units
from aotbuild.errors import BuildError, PlanError, UnitFailure
from aotbuild.manifest import Function, Manifest
from aotbuild.platforms.building import LocalDevices, Measured, Tuner
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
    here = manifest.model_copy(
        update={
            "targets": (local.request,),
            "toolchains": (),
            "functions": {name: _without_golden(f) for name, f in fitting.items()},
        }
    )
    plan = make_plan(here, environment)
    units = tuple(
        replace(unit, hardware=tuner.into(unit.hardware, _results_of(folder, number)))
        for number, unit in enumerate(plan.units)
    )
    return Tuning(tuner, replace(plan, units=units), folder, notes)


@dataclass(frozen=True)
class Tuned:
    """What was measured: all results, and for each unit how many, and how many were known.

    `failures` are those of the units that could not be compiled; they cost the others nothing.
    """

    results: Measured
    counts: tuple[tuple[str, int, int], ...]
    failures: tuple[UnitFailure, ...]


def tune(tuning: Tuning, sources: SourceTree, listener: Listener, known: str | None) -> Tuned:
    """Compile what was planned, with XLA trying its choices, each unit in a process of its own.

    `known` is the text of earlier results, which are kept where nothing newer was measured.

    Raises:
        BuildError: if no unit has results, and some failed.
        PlanError: if XLA had nothing to choose.
        ValueError: if `known` is malformed.
    """
    tuner, plan, blobs = tuning.tuner, tuning.plan, tuning.folder / "blobs"
    earlier = [tuner.parse(known)] if known is not None else []
    blobs.mkdir()
    # Here, whatever AOTBUILD_EXECUTOR says: other machines may have other devices.
    done = run_units(plan, sources, blobs, listener, BuildOptions(executor=LOCAL)).results
    failures = tuple(result.failure for result in done if result.failure)
    found = [
        tuner.read(_results_of(tuning.folder, number), unit.hardware.kind, unit.toolchain.jax)
        for number, unit in enumerate(plan.units)
    ]
    is_empty = not any(results.keys for results in found)
    if is_empty and failures:
        raise BuildError(failures, len(done))
    if is_empty:
        msg = (
            f"{plan.manifest.file}: XLA found nothing to choose in these functions, so there is "
            "nothing to write; leave tuning: out of the target"
        )
        raise PlanError(msg)
    keys = frozenset[object]().union(*(results.keys for results in earlier))
    counts = tuple(
        (str(unit), len(results.keys), len(results.keys & keys))
        for unit, results in zip(plan.units, found, strict=True)
    )
    return Tuned(tuner.join([*earlier, *found]), counts, failures)


def _results_of(folder: Path, number: int) -> Path:
    return folder / f"{number}.txt"


def _check_jax(manifest: Manifest, environment: Environment, tuner: Tuner) -> None:
    (toolchain,) = environment.toolchains
    wanted = [request.jax for request in manifest.toolchains]
    if wanted and Version(toolchain.jax) not in map(Version, wanted):
        msg = (
            f"{manifest.file}: toolchains: expected jax {', '.join(wanted)}, found "
            f"{toolchain.jax}; results are for one jax: install {tuner.install(wanted[0])} here"
        )
        raise PlanError(msg)


def _without_golden(function: Function) -> Function:
    verify = function.verify.model_copy(update={"golden": "never"})
    return function.model_copy(update={"verify": verify})
