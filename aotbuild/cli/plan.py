"""`aotbuild plan`: what would be compiled, without compiling anything."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from aotbuild.cli.exit_codes import BUILD
from aotbuild.cli.output import Output
from aotbuild.cli.plan_explain import explain_project
from aotbuild.cli.plan_size import known_size
from aotbuild.cli.project import (
    Project,
    count,
    open_project,
    plan_document,
    project_options,
)

if TYPE_CHECKING:
    from aotbuild.build.environment import Toolchain

_HEADERS = ("function", "signature", "target", "devices")


@click.command(short_help="Print what would be compiled.")
@project_options
@click.option(
    "--explain",
    is_flag=True,
    help="Also trace every signature, and print which of them are one program.",
)
@click.pass_obj
def plan(output: Output, manifest: Path, root: Path | None, as_json: bool, explain: bool) -> None:
    """Print every compilation that MANIFEST asks for. Compiles and imports nothing.

    With --explain, your code is imported and traced, in processes of its own as for a build.
    """
    output.as_json = as_json
    project = open_project(manifest, root)
    output.document.update(plan_document(project))
    units = project.plan.units
    output.table(
        _HEADERS,
        [
            (u.function.name, u.values_label or "-", f"{u.target}{u.suffix}", str(u.devices))
            for u in units
        ],
    )
    output.text()
    output.text(summary(project))
    for line in pad_lines(project):
        output.text(f"pad:       {line}")
    size = known_size(project)
    output.document["known_size"] = size.to_json() if size else None
    output.text(f"size:      {size or 'not known before it is compiled'}")
    if size and size.note:
        output.text(f"warning:   {size.note}")
    output.document["notes"] = notes = startup_notes(project)
    for note in notes:
        output.text(f"note:      {note}")
    if explain and not explain_project(output, project):
        output.finish(None)
        raise click.exceptions.Exit(BUILD)


def pad_lines(project: Project) -> list[str]:
    """Return what calls of each function are padded with, as `score: batch with 0.0`."""
    lines = []
    for function in {unit.function.name: unit.function for unit in project.plan.units}.values():
        dims = (f"{d.name} with {d.value}{' (safe)' if d.safe else ''}" for d in function.pad)
        if function.pad:
            lines.append(f"{function.name}: {', '.join(dims)}")
    return lines


def startup_notes(project: Project) -> list[str]:
    """Return where `startup:` changes nothing, each case once."""
    from aotbuild.build.startup import untouched

    found = (untouched(u.function.startup, u.target.platform) for u in project.plan.units)
    return list(dict.fromkeys(note for note in found if note))


def _toolchains(project: Project) -> str:
    toolchains = project.plan.environment.toolchains
    return "\n".join(f"toolchain: {toolchain}{_origin(toolchain)}" for toolchain in toolchains)


def _origin(toolchain: Toolchain) -> str:
    """Return how an environment that is not the running one comes to be."""
    if toolchain.recipe is None:
        return ""
    file = toolchain.recipe.file
    return f" (made by uv{f' from {file.name}' if file else ''})"


def summary(project: Project) -> str:
    """Return the plan in a few lines: how much, of what, with what."""
    units = project.plan.units
    functions = len({unit.function.name for unit in units})
    return (
        f"{count(len(units), 'unit')} of {count(functions, 'function')} "
        f"for {project.plan.manifest.package}/_aot\n"
        f"{_toolchains(project)}\n"
        f"sources:   {project.sources.import_root}"
    )
