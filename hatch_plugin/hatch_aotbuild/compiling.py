"""The part of the build hook that plans and compiles, apart because of what it imports."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from time import monotonic

from packaging.requirements import Requirement

from aotbuild.build.finished import Finished, WheelInputs
from aotbuild.build.keeping import begin, keep_build
from aotbuild.build.pack import build_package
from aotbuild.build.plan import make_plan
from aotbuild.build.planned import PlanInputs
from aotbuild.build.references import read_references
from aotbuild.build.requirements import build_requirements, wheel_requirements, wheel_tag
from aotbuild.build.shares import make_share
from aotbuild.build.sources import find_sources
from aotbuild.cli.progress import lines_from_store, made, origins, summary, tracked
from aotbuild.errors import PlanError
from aotbuild.manifest import load_manifest
from aotbuild.report.words import plural
from aotbuild.toolchains.environments import find_environment, make_environments
from hatch_aotbuild.version import chosen_jax, with_jax

Say = Callable[[str], None]


def needed_for_build(inputs: PlanInputs) -> list[str]:
    """Return what the build environment needs: the project's dependencies and the toolchain."""
    return build_requirements(load_manifest(inputs.manifest), inputs.project)


def compile_wheel(
    inputs: WheelInputs,
    folder: Path,
    stated: Iterable[str],
    say: Say,
    warn: Say,
    *,
    keep_going: bool,
    live: bool,
) -> Finished:
    """Compile the manifest into `folder`.

    `stated` are the requirements in the wheel's metadata. `say` gets lines of progress, `warn`
    notes; `live` allows a table in a terminal. With `keep_going`, units that fail are left out.
    """
    started, beginning = monotonic(), begin(inputs, os.environ)
    manifest = load_manifest(inputs.plan.manifest)
    environment = find_environment(manifest, inputs.plan.project, say)
    plan = make_plan(manifest, environment)
    check_requirements(wheel_requirements(plan), stated)
    wheel_tag(plan)  # fails before anything is compiled, too
    sources = find_sources(inputs.plan.root, manifest.package, inputs.packages)
    if not keep_going:
        read_references(manifest, sources).refuse_missing()
    share = make_share(plan, sources, inputs.shard, os.environ) if inputs.shard else None
    wanted = share.part_of(plan) if share else plan
    of_all = f" of {len(plan.units)}, shard {share.shard}" if share else ""
    toolchains = "; ".join(map(str, environment.toolchains))
    head = f"{plural(len(wanted.units), 'unit')}{of_all}, {toolchains}"
    say(head)
    make_environments(wanted.environment.toolchains, say)
    with tracked(wanted.units, say, live=live) as tracker:
        package = build_package(
            *(plan, sources, folder, tracker), keep_going=keep_going, share=share
        )
    for line in (*origins(package), summary(package, monotonic() - started)):
        say(line)
    for note in (*package.notes, *filter(None, [package.left_out])):
        warn(note)
    failed = len({failure.unit for failure in package.failures})
    finished = Finished(
        package=manifest.package,
        # The wheels of all shards have one tag.
        tag=wheel_tag(plan if share else package.plan),
        lines=(head, *lines_from_store(package)),
        made=made(package),
        notes=package.notes,
        missing=plural(failed, "unit") if failed else "",
        size_remedy=package.size_remedy,
        checked=package.checked,
    )
    # Stages are no part of the folder, and what uv made or resolved is not among the inputs.
    by_uv = any(toolchain.recipe for toolchain in environment.toolchains)
    if not (package.stages or by_uv):
        keep_build(inputs, finished, folder, package.reads, beginning, os.environ)
    return finished


def check_requirements(needed: Iterable[str], stated: Iterable[str]) -> None:
    """Raise PlanError if the wheel's metadata would lack what its executables require.

    Metadata from the PKG-INFO of a source distribution stays as it was made there.
    """
    found = set(map(Requirement, stated))
    missing = [text for text in needed if Requirement(text) not in found]
    if missing:
        msg = (
            "the metadata of this project was made by another build\n"
            f"  expected {', '.join(missing)}\n"
            f"  found    {', '.join(sorted(map(str, found)))}\n"
            "Make the source distribution again, with the aotbuild and the jax of this build."
        )
        raise PlanError(msg)


def expected_local_version(manifest: Path) -> str:
    """Return the local version of a wheel whose version names its jax, as `jax0.12.0.1`."""
    return with_jax("", chosen_jax(load_manifest(manifest))).removeprefix("+")
