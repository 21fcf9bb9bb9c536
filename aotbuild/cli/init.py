"""`aotbuild init`: the first manifest of a project, and what its pyproject.toml needs."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aotbuild.cli.command import JSON, UsageError, argument, command, existing_folder, flag
from aotbuild.cli.output import Output
from aotbuild.report.words import plural

if TYPE_CHECKING:
    from aotbuild.record.changes import FileChange
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
    flag("--recursive", help="Read packages with all modules that are in them."),
    argument(
        "--backend",
        choices=["hatchling"],
        help="Let hatchling build a project that another build backend builds now.",
    ),
    flag("--yes", help="Write without asking."),
    flag("--dry-run", help="Write nothing."),
    JSON,
)
def init(
    output: Output,
    modules: list[str],
    root: Path,
    recursive: bool,
    backend: str | None,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Write aot.yaml with the jitted functions of each MODULE, and prepare pyproject.toml.

    Nothing is imported: the source is read. TODO stands where it does not say enough. The changes
    are shown first; without --yes or a terminal, nothing is written.
    """
    from aotbuild.record.changes import write_together
    from aotbuild.record.init import prepare_project

    output.as_json = as_json
    if yes and dry_run:
        msg = "--yes writes, and --dry-run does not; leave one out"
        raise UsageError(msg)
    found = prepare_project(root, modules, recursive=recursive, switch=backend is not None)
    output.document.update(_document(found))
    for line in (*_functions(found, output), *_pyproject(found), *_differences(found)):
        output.text(line)
    written: list[str] = []
    if not dry_run and (yes or (not as_json and _agreed(found))):
        written = [path.name for path in write_together(found.changes)]
    output.document["written"] = written
    for line in _ending(found, written):
        output.text(line)


def _agreed(found: Preparation) -> bool:
    """Ask whether the changes are to be written; nobody can say so without a terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    names = _listed([change.path.name for change in found.changes if change.is_change])
    if not names:
        return False
    return input(f"\nWrite {names}? [y/N] ").strip().lower() in ("y", "yes")


def _functions(found: Preparation, output: Output) -> list[str]:
    """Return lines about jits that are left out; the table of the others is printed."""
    rows = [
        (e.name, e.function.call, e.function.jit or "none", str(e.todos or "-"))
        for e in found.entries
    ]
    if rows:
        output.table(_HEADERS, rows)
    lines = []
    if found.known:
        lines.append(f"{', '.join(found.known)}: in {found.manifest} already")
    if found.left_out:
        lines += ["", f"{plural(len(found.left_out), 'jit')} that no manifest can name:"]
        shown = found.left_out[:_SHOWN]
        lines += [f"  {line}" for item in shown for line in str(item).splitlines()]
        more = len(found.left_out) - len(shown)
        lines += [f"  and {more} more; --json lists them"] if more else []
    return lines


def _pyproject(found: Preparation) -> list[str]:
    prepared = found.pyproject
    lines = [f"note: {note}" for note in prepared.notes]
    if prepared.problem:
        lines.append(f"pyproject.toml is left as it is: {prepared.problem}")
    return ["", *lines] if lines else []


def _differences(found: Preparation) -> list[str]:
    """Return what is written, and what another backend would need."""
    changes = [*found.changes]
    if found.pyproject.proposal:
        last = changes[-1]
        changes.append(replace(last, after=found.pyproject.proposal))
    texts = [_difference(change) for change in changes if change.is_change]
    if found.entries and not found.changes[0].is_change:
        exists = f"{found.manifest} exists. Add this to its functions:\n\n"
        texts.insert(0, exists + _entries(found))
    return [line for text in texts for line in ("", *text.splitlines())]


def _difference(change: FileChange) -> str:
    name = change.path.name
    return f"{name}: {change.about}" if change.about else change.diff(name)


def _entries(found: Preparation) -> str:
    return "\n".join(line for entry in found.entries for line in entry.lines)


def _ending(found: Preparation, written: list[str]) -> list[str]:
    """Return what was done, and what to do next."""
    if not any(change.is_change for change in found.changes):
        return ["", "nothing to write"]
    if not written:
        return ["", "nothing was written; --yes writes it"]
    todos = sum(entry.todos for entry in found.entries)
    other = f" {found.manifest} --root ." if found.manifest != "aot.yaml" else ""
    # Without the hook, pip would make a wheel without executables.
    build = f"aotbuild build{other}" if found.pyproject.problem else "pip wheel . --no-deps -w dist"
    steps = [f"aotbuild plan{other}", build]
    if todos:
        fill = f"replace {plural(todos, 'TODO')} in {found.manifest}; `{steps[0]}` lists them"
        steps = [fill, *steps]
    numbered = [f"  {number}. {step}" for number, step in enumerate(steps, 1)]
    return ["", f"wrote {_listed(written)}. Next:", *numbered]


def _listed(names: list[str]) -> str:
    """Return `a, b and c`."""
    *most, last = names or [""]
    return f"{', '.join(most)} and {last}" if most else last


def _document(found: Preparation) -> dict[str, Any]:
    return {
        "package": found.package,
        "functions": [
            {
                "name": entry.name,
                "call": entry.function.call,
                "file": entry.function.file,
                "line": entry.function.line,
                "jit": entry.function.jit,
                "todo": entry.todos,
                "notes": list(entry.function.notes),
                "entry": "\n".join(entry.lines) + "\n",
            }
            for entry in found.entries
        ],
        "known": list(found.known),
        "left_out": [vars(item) for item in found.left_out],
        "notes": list(found.pyproject.notes),
        "problem": found.pyproject.problem,
        "changes": [
            {"file": change.path.name, "diff": _difference(change)}
            for change in found.changes
            if change.is_change
        ],
    }
