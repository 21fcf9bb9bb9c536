"""`aotbuild init`: the first manifest of a project, and what its pyproject.toml needs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aotbuild.cli.command import UsageError, argument, command, existing_folder, flag
from aotbuild.cli.output import Output
from aotbuild.report.words import plural

if TYPE_CHECKING:
    from aotbuild.record.init import Preparation

# How many jits without a name are listed; the JSON document has all.
_SHOWN = 20
_HEADERS = ("function", "call", "jit", "todo")


@command(
    "Write a manifest from your source, and prepare pyproject.toml.",
    argument("modules", nargs="+", metavar="MODULE[:FUNCTION]"),
    argument(
        "--root",
        type=existing_folder,
        default=Path(),
        metavar="DIR",
        help="The project's folder, with pyproject.toml. Default: the current folder.",
    ),
    flag("--yes", help="Write without asking."),
    flag("--dry-run", help="Write nothing."),
)
def init(output: Output, modules: list[str], root: Path, yes: bool, dry_run: bool) -> None:
    """Write aot.yaml with the jitted functions of each MODULE, and prepare pyproject.toml.

    Of a package, all modules are read. Nothing is imported: TODO stands where the source does not
    say enough, and `aotbuild record` fills it from the calls of a program. The changes are shown
    first; without --yes or a terminal, nothing is written.
    """
    from aotbuild.record.files import write_changes
    from aotbuild.record.init import prepare_project

    if yes and dry_run:
        msg = "--yes writes, and --dry-run does not; leave one out"
        raise UsageError(msg)
    found = prepare_project(root, modules)
    output.document.update(_document(found))
    _print(output, found)
    written: list[str] = []
    if not dry_run and (yes or (not output.as_json and _agreed(found))):
        written = [path.name for path in write_changes(found.changes)]
    output.document["written"] = written
    for line in _ending(found, written):
        output.text(line)


def _agreed(found: Preparation) -> bool:
    """Ask whether the changes are to be written; nobody can say so without a terminal."""
    names = ", ".join(change.path.name for change in found.changes if change.is_change)
    if not (names and sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    return input(f"\nWrite {names}? [y/N] ").strip().lower() in ("y", "yes")


def _print(output: Output, found: Preparation) -> None:
    rows = [
        (each.name, each.function.call, each.function.jit or "none", str(each.todos or "-"))
        for each in found.entries
    ]
    if rows:
        output.table(_HEADERS, rows)
    changes = [change.difference for change in found.changes if change.is_change]
    if found.entries and not found.changes[0].is_change:
        lines = "\n".join(line for entry in found.entries for line in entry.lines)
        changes.insert(0, f"{found.manifest} exists. Add this to its functions:\n\n{lines}")
    notes = [f"note: {note}" for note in found.pyproject.notes]
    for text in (*_left_out(found), *notes, *changes):
        output.text(f"\n{text}")


def _left_out(found: Preparation) -> list[str]:
    """Return what the manifest does not get."""
    parts = [f"{', '.join(found.known)}: in {found.manifest} already"] if found.known else []
    if found.unnamed:
        lines = [f"  {file}:{each.line}: {each.what}" for file, each in found.unnamed[:_SHOWN]]
        more = len(found.unnamed) - _SHOWN
        lines += [f"  and {more} more; --json lists them"] if more > 0 else []
        head = f"{plural(len(found.unnamed), 'jit')} that no manifest can name; assign each to a "
        parts.append("\n".join([f"{head}name at the top of a module:", *lines]))
    return parts


def _ending(found: Preparation, written: list[str]) -> list[str]:
    """Return what was done, and what to do next."""
    if not any(change.is_change for change in found.changes):
        return ["", "nothing to write"]
    if not written:
        return ["", "nothing was written; --yes writes it"]
    other = "" if found.manifest == "aot.yaml" else f" {found.manifest} --root ."
    steps = [f"aotbuild plan{other}", "pip wheel . --no-deps -w dist"]
    if not found.pyproject.is_hatchling:  # pip would make a wheel without executables
        steps[1] = f"aotbuild build{other}"
    todos = sum(entry.todos for entry in found.entries)
    if todos:
        fill = f"replace {plural(todos, 'TODO')} in {found.manifest}, or run your program under "
        steps = [f"{fill}`aotbuild record`", *steps]
    numbered = [f"  {number}. {step}" for number, step in enumerate(steps, 1)]
    return ["", f"wrote {', '.join(written)}. Next:", *numbered]


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
        "unnamed": [{"file": file, **vars(each)} for file, each in found.unnamed],
        "notes": list(found.pyproject.notes),
        "changes": [
            {"file": change.path.name, "diff": change.difference}
            for change in found.changes
            if change.is_change
        ],
    }
