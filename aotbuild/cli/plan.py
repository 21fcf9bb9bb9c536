"""`aotbuild plan`: what would be compiled, without compiling anything."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from aotbuild.cli.command import command
from aotbuild.cli.output import Output, say
from aotbuild.cli.project import PROJECT, plan_document
from aotbuild.format.words import plural

if TYPE_CHECKING:
    from aotbuild.build.project import Project
    from aotbuild.toolchains.toolchain import Toolchain

_HEADERS = ("function", "signature", "target", "devices")


@command("Print what would be compiled.", PROJECT)
def plan(output: Output, manifest: Path, root: Path | None) -> None:
    """Print every compilation that MANIFEST asks for. Compiles and imports nothing."""
    from aotbuild.build.project import open_project

    project = open_project(manifest, root, say, run_code=False)
    units = project.plan.units
    notes = _default_notes(project)
    output.document.update(plan_document(project), notes=notes)
    output.table(
        _HEADERS,
        [(u.name, u.values_label or "-", f"{u.target}{u.suffix}", str(u.devices)) for u in units],
    )
    output.text()
    output.text(_summary(project))
    for name, line in _detail_lines(project):
        output.text(f"{name + ':':<10} {line}")
    for note in notes:
        output.text(f"note:      {note}")


def _detail_lines(project: Project) -> list[tuple[str, str]]:
    """Return what targets say beside their names: an option, its value and their names."""
    from aotbuild.platforms.building import description

    found: dict[tuple[str, Any], list[str]] = {}
    for unit in project.plan.units:
        for detail in description(unit.target.platform).details(unit.hardware).items():
            found.setdefault(detail, []).append(str(unit.target))
    return [
        (name, f"{value} for {', '.join(dict.fromkeys(targets))}")
        for (name, value), targets in found.items()
    ]


def _default_notes(project: Project) -> list[str]:
    """Return a note for each choice that the manifest leaves to the machine of the build."""
    plan = project.plan
    requests = plan.manifest.targets
    notes = [n for r in requests for n in r.description.notes(r, plan.environment)]
    if not project.is_pinned:
        (toolchain,) = plan.environment.toolchains
        notes.append(
            f"toolchains: nothing pins jax, so the one that is installed compiles, {toolchain.jax} "
            f'here, and the hook makes no wheel; add "jax=={toolchain.jax}" to the dependencies'
        )
    return list(dict.fromkeys([*notes, *project.notes]))


def _origin(toolchain: Toolchain) -> str:
    """Return where an environment other than the running one comes from."""
    if toolchain.recipe is None:
        return ""
    file = toolchain.recipe.file
    return f" (made by uv{f' from {file.name}' if file else ''})"


def _summary(project: Project) -> str:
    """Return the plan in a few lines: units, functions, toolchains, sources."""
    units = project.plan.units
    functions = len({unit.name for unit in units})
    found = project.plan.environment.toolchains
    toolchains = "\n".join(f"toolchain: {each}{_origin(each)}" for each in found)
    return (
        f"{plural(len(units), 'unit')} of {plural(functions, 'function')} "
        f"for {project.plan.manifest.package}/_aot\n"
        f"{toolchains}\n"
        f"sources:   {project.sources.import_root}"
    )
