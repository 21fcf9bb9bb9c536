"""`aotbuild build`: compile everything that a manifest asks for into one `_aot` folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from aotbuild.cli.command import (
    UsageError,
    argument,
    command,
    flag,
    new_folder,
    whole_number,
)
from aotbuild.cli.exit_codes import PARTIAL
from aotbuild.cli.github import of_failures
from aotbuild.cli.output import Output, say
from aotbuild.cli.project import PROJECT, check_replaceable
from aotbuild.errors import BuildError

if TYPE_CHECKING:
    from aotbuild.build.pack import Package
    from aotbuild.build.project import Project


@command(
    "Compile it all into one _aot folder.",
    PROJECT,
    argument(
        "--out",
        type=new_folder,
        metavar="DIR",
        help="The _aot folder to write. Default: build/aot/<package>/_aot.",
    ),
    flag(
        "--in-place",
        help="Write _aot into the package's source folder, where an editable install finds it.",
    ),
    argument(
        "--jobs",
        type=whole_number(1),
        metavar="N",
        help="How many compilers may work side by side. Default: AOTBUILD_JOBS, or one for each "
        "CPU.",
    ),
    argument(
        "--executor",
        metavar="WHERE",
        help="Where they work: local, or the workers of a Dask cluster: dask://HOST:PORT. Default: "
        "AOTBUILD_EXECUTOR, or local.",
    ),
    argument(
        "--memory",
        choices=["refuse", "warn"],
        help="What a unit that needs more memory than its device has does. Default: the "
        "manifest's.",
    ),
    flag(
        "--keep-going",
        help="Leave out the units that fail, and exit with 10. Without it, nothing is written "
        "then.",
    ),
    flag(
        "--fresh",
        help="Trace every function, even if nothing has changed since an earlier build. The store "
        "still has their executables.",
    ),
    flag(
        "--check",
        help="Build nothing. Say whether the folder is what a build would write, and exit with 11 "
        "if it is not.",
    ),
    flag(
        "--check-reproducible",
        help="Write nothing. Build everything twice without the store, say what differs, and exit "
        "with 12 if anything does.",
    ),
)
def build(
    output: Output,
    manifest: Path,
    root: Path | None,
    as_json: bool,
    out: Path | None,
    in_place: bool,
    jobs: int | None,
    executor: str | None,
    memory: str | None,
    keep_going: bool,
    fresh: bool,
    check: bool,
    check_reproducible: bool,
) -> int | None:
    """Compile everything that MANIFEST asks for, and write it as a whole or not at all."""
    from aotbuild.build.project import open_project

    output.as_json = as_json
    whole = {
        "--in-place": in_place,
        "--check": check,
        "--check-reproducible": check_reproducible,
    }
    if out is not None and in_place:
        msg = "--out and --in-place exclude each other"
        raise UsageError(msg)
    if check_reproducible:
        _refuse("--check-reproducible", {"--out": out, **whole, "--keep-going": keep_going})
    project = _with_memory(open_project(manifest, root, say), memory)
    if check_reproducible:
        from aotbuild.cli import reproducible

        return reproducible.check_reproducible(output, project, jobs, executor)
    folder = _folder(project, out, in_place)
    from aotbuild.cli import built

    if check:
        return built.print_check(output, project, folder)
    check_replaceable(folder)
    output.document.update(built.document(project, folder))
    started = monotonic()
    package = _compile(
        *(output, project, folder, jobs, executor),
        keep_going=keep_going,
        fresh=fresh,
    )
    built.fill(output.document, package)
    built.print_package(output, package, monotonic() - started)
    if package.left_out:
        say(package.left_out)
        output.markdown.line(package.left_out)
        output.annotations += of_failures("warning", package.failures, manifest)
        return PARTIAL
    return None


def _with_memory(project: Project, memory: str | None) -> Project:
    """Return the project with `memory:` of its manifest replaced, if `memory` is given."""
    plan = project.plan
    manifest = plan.manifest.model_copy(update={"memory": memory or plan.manifest.memory})
    return replace(project, plan=replace(plan, manifest=manifest))


def _refuse(option: str, others: Mapping[str, Any]) -> None:
    """Refuse an option beside any of the others that is given."""
    for name, value in others.items():
        if value and name != option:
            msg = f"{option} and {name} exclude each other"
            raise UsageError(msg)


def _folder(project: Project, out: Path | None, in_place: bool) -> Path:
    if in_place:
        return project.sources.import_root / project.sources.artifacts
    return out or Path("build", "aot", project.sources.artifacts)


def _compile(
    output: Output,
    project: Project,
    folder: Path,
    jobs: int | None,
    executor: str | None,
    *,
    keep_going: bool,
    fresh: bool,
) -> Package:
    from aotbuild.build.pack import build_package
    from aotbuild.build.references import read_references
    from aotbuild.build.unit_progress import tracked
    from aotbuild.cli.built import unit_state
    from aotbuild.toolchains.environments import make_environments

    plan = project.plan
    if not keep_going:
        read_references(plan.manifest, project.sources).refuse_missing()
    make_environments(plan.environment.toolchains, say)
    with tracked(plan.units, say) as tracker:
        try:
            return build_package(
                *(project.plan, project.sources, folder, tracker, jobs),
                keep_going=keep_going,
                executor=executor,
                fresh=fresh,
            )
        except BuildError as err:
            output.document["failures"] = [vars(failure) for failure in err.failures]
            raise
        finally:
            output.document["units"] = [unit_state(state) for state in tracker.states]
