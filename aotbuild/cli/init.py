"""`aotbuild init`: the first manifest of a project, and what its pyproject.toml needs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from aotbuild.cli.command import argument, command, existing_folder, flag
from aotbuild.cli.output import Output
from aotbuild.format.files import write_whole
from aotbuild.report.words import plural

if TYPE_CHECKING:
    from aotbuild.record.init import Preparation


@command(
    "Write a manifest with TODOs for what is under jit.",
    argument("modules", nargs="+", metavar="MODULE[:FUNCTION]"),
    argument(
        "--root",
        type=existing_folder,
        default=Path(),
        metavar="DIR",
        help="The project's folder, with pyproject.toml. Default: the current folder.",
    ),
    flag("--dry-run", help="Write nothing."),
)
def init(output: Output, modules: list[str], root: Path, dry_run: bool) -> None:
    """Write aot.yaml with the jitted functions of each MODULE.

    Of a package, all modules are read. Nothing is imported: TODO stands for each spec, dim and
    static value; `aotbuild record` prints entries to put in place of these. Files that exist
    stay as they are: what they lack is printed.
    """
    from aotbuild.record.init import prepare_project

    found = prepare_project(root, modules)
    for path, text in found.files.items() if not dry_run else ():
        write_whole(path, text.encode())
    written = [] if dry_run else [path.name for path in found.files]
    output.document.update(_document(found), written=written)
    rows = [(e.name, e.function.call, e.function.jit or "none") for e in found.entries]
    if rows:
        output.table(("function", "call", "jit"), rows)
    known = f"{', '.join(found.known)}: in {found.manifest} already"
    texts = [*([known] if found.known else []), *_to_add(found)]
    if dry_run:
        texts += [f"{path.name}:\n\n{text}" for path, text in [*found.files.items()][:1]]
    for text in texts:
        output.text(f"\n{text}")
    output.text("\n".join(["", *_ending(found, written)]))


def _to_add(found: Preparation) -> list[str]:
    """Return what the files that exist lack."""
    new = {path.name for path in found.files}
    parts = []
    if found.entries and Path(found.manifest).name not in new:
        lines = "\n".join(line for entry in found.entries for line in entry.lines)
        parts.append(f"{found.manifest} exists. Add this to its functions:\n\n{lines}")
    if found.tables and "pyproject.toml" not in new:
        parts.append(
            f"The build hook works with hatchling. pyproject.toml needs:\n\n{found.tables}\n"
            "Without it, `aotbuild build` compiles into a folder all the same."
        )
    return parts


def _ending(found: Preparation, written: list[str]) -> list[str]:
    """Return what was done, and what to do next."""
    if not written:
        return ["nothing was written"]
    other = "" if found.manifest == "aot.yaml" else f" {found.manifest} --root ."
    steps = [f"aotbuild plan{other}", "pip wheel . --no-deps -w dist"]
    if todos := sum(entry.todos for entry in found.entries):
        out = "" if found.manifest == "aot.yaml" else f"--out {found.manifest} "
        fill = f"replace {plural(todos, 'TODO')} in {found.manifest} by hand, or these entries by "
        steps = [f"{fill}those that `aotbuild record {out}-- PROGRAM` prints", *steps]
    numbered = [f"  {number}. {step}" for number, step in enumerate(steps, 1)]
    return [f"wrote {', '.join(written)}. Next:", *numbered]


def _document(found: Preparation) -> dict[str, Any]:
    return {
        "package": found.package,
        "functions": [
            {
                "name": entry.name,
                "call": entry.function.call,
                "file": entry.file,
                "line": entry.function.line,
                "jit": entry.function.jit,
                "todo": entry.todos,
                "notes": list(entry.function.notes),
                "entry": "\n".join(entry.lines) + "\n",
            }
            for entry in found.entries
        ],
        "known": list(found.known),
        "tables": found.tables,
    }
