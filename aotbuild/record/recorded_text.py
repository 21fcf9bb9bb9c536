"""The text of a manifest with what a draft has for it, read again to prove that it is as meant."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from aotbuild.errors import ManifestError
from aotbuild.format.target import HOST
from aotbuild.manifest import Function, parse_manifest
from aotbuild.record.draft import Added, Draft, Extended
from aotbuild.record.edit import CannotEdit, TextEditor
from aotbuild.record.entry_text import comment, commented_lines, function_lines
from aotbuild.record.existing import Existing, NotAsMeant, prove
from aotbuild.record.files import SCHEMA_LINE
from aotbuild.record.leaf_nodes import leaf_nodes
from aotbuild.record.matching import Expanded
from aotbuild.record.recording import Recording
from aotbuild.record.unfinished import kept_options
from aotbuild.record.yaml_text import flow


class CannotExtend(Exception):
    """An entry is written in a way that nothing can be added to; the message says how."""

    def __init__(self, name: str, reason: str) -> None:
        self.name, self.reason = name, reason
        super().__init__(reason)


def proposed_text(
    before: str | None,
    manifest: Path,
    existing: Existing | None,
    draft: Draft,
    package: str,
    recording: Recording,
) -> tuple[str, list[str]]:
    """Return the new text of a manifest and notes; NotAsMeant if it cannot be made."""
    platforms = _platforms(recording)
    if existing is None:
        targets, notes = _targets(platforms)
        kept = f"{before.rstrip()}\n" if before and before.strip() else ""
        text = kept + _new_text(draft, package, targets)
    else:
        assert before is not None, "an existing manifest has a text"
        try:
            text = _edited(before, existing, draft)
        except CannotEdit as err:
            raise NotAsMeant(manifest, str(err)) from err
        notes = [*_missing_targets(existing, platforms), *_still_unfinished(existing, draft)]
    if text != before:
        prove(text, manifest, existing, draft)
    return text, notes


# --- a new manifest -------------------------------------------------------------------------------


def _new_text(draft: Draft, package: str, targets: list[str]) -> str:
    lines = [SCHEMA_LINE, "version: 1", f"package: {package}", *targets]
    lines.append("functions:")
    for number, added in enumerate(draft.added):
        lines += [""] if number else []
        lines += function_lines(added.name, added.entry, added.body)
    for added in draft.problems:
        lines += ["", *commented_lines(added.name, added.entry)]
    return "\n".join(lines) + "\n"


def _platforms(recording: Recording) -> list[str]:
    """Return where the calls ran."""
    calls = (call.platform for call in recording.calls.values())
    return sorted({*filter(None, calls)}) or [HOST]


def _targets(platforms: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the lines of `targets`, and notes on platforms that need more than a name."""
    problems = {name: _target_problem(name) for name in platforms}
    listed = [name for name, problem in problems.items() if not problem] or [HOST]
    notes = [f"ran on {name}: {problem}" for name, problem in problems.items() if problem]
    lines = [f"targets: [{', '.join(listed)}]"]
    return [*(line for note in notes for line in comment(note, "")), *lines], notes


def _target_problem(name: str) -> str:
    """Return why a platform alone is no target."""
    text = flow(
        {"version": 1, "package": "p", "targets": [name], "functions": {"f": {"call": "m:f"}}}
    )
    try:
        parse_manifest(text)
    except ManifestError as err:
        return err.problems[0].message
    return ""


def _missing_targets(existing: Existing, platforms: Iterable[str]) -> list[str]:
    model = existing.model
    known = {target.platform for target in model.targets} if model else {*platforms}
    return [
        f"ran on {name}, which is no target of the manifest"
        for name in platforms
        if name not in known
    ]


def _still_unfinished(existing: Existing, draft: Draft) -> list[str]:
    left = [name for name in existing.unfinished if name not in {a.name for a in draft.added}]
    return [f"{name} still has a TODO: no call of it was recorded" for name in left]


# --- an existing manifest -------------------------------------------------------------------------


def _edited(text: str, existing: Existing, draft: Draft) -> str:
    editor = TextEditor(text)
    for extended in draft.extended:
        if extended.extension.is_change:
            try:
                _extend(editor, existing, extended)
            except CannotEdit as err:
                raise CannotExtend(extended.name, str(err)) from err
    problems = [added for added in draft.problems if not _is_commented(text, added)]
    _finish(editor, text, draft.added, existing)
    added = [each for each in draft.added if each.name not in existing.unfinished]
    if added or (problems and existing.functions):
        _append(editor, added, problems)
    return editor.result()


def _finish(editor: TextEditor, text: str, added: list[Added], existing: Existing) -> None:
    """Write the entries anew that had a TODO."""
    functions = editor.value(editor.root, "functions")
    outer = editor.column(editor.root)
    bodies = {each.name: each for each in added if each.name in existing.unfinished}
    for key, value in functions.value if bodies else ():
        each = bodies.get(key.value)
        if each:
            body = kept_options(text, each.name, each.body)
            indent = editor.column(functions)
            lines = function_lines(each.name, each.entry, body, indent, max(indent - outer, 1))
            editor.write_entry(key, value, lines)


def _is_commented(text: str, added: Added) -> bool:
    return any(line.strip(" #\r") == f"call: {added.entry.call}" for line in text.split("\n"))


def _append(editor: TextEditor, added: list[Added], problems: list[Added]) -> None:
    functions = editor.value(editor.root, "functions")
    if isinstance(functions, yaml.MappingNode) and functions.value and functions.flow_style:
        for each in added:
            editor.add_flow(functions, f"{flow(each.name)}: {flow(each.body)}")
        return
    is_filled = isinstance(functions, yaml.MappingNode) and functions.value
    outer = editor.column(editor.root)
    indent = editor.column(functions) if is_filled else outer + 2
    step = max(indent - outer, 1)
    lines = []
    for number, each in enumerate(added):
        lines += [""] if is_filled or number else []
        lines += function_lines(each.name, each.entry, each.body, indent, step)
    for each in problems:
        lines += ["", *commented_lines(each.name, each.entry, indent, step)]
    if is_filled:
        editor.add_lines(functions, lines)
    elif editor.root.flow_style:
        msg = "it is one map in braces, without functions"
        raise CannotEdit(msg)
    else:
        editor.fill(functions, lines)


def _extend(editor: TextEditor, existing: Existing, extended: Extended) -> None:
    """Write what an entry gets into its text."""
    found, function = extended.extension, existing.functions[extended.name]
    node = editor.value(editor.root, "functions", extended.name)
    for (argument, leaf), text in found.avals.items():
        editor.replace_aval(_leaf_node(editor, node, function, argument, leaf), text)
    for key, values in found.static.items():
        editor.add_values(_own(editor, node, "static", str(key)), values)
    if found.dims is None:
        return
    own = editor.value(node, "dims")
    if own is None:
        editor.add_entry(node, "dims", found.dims)
    elif isinstance(found.dims, dict) and isinstance(function.dims, dict) and not found.avals:
        for name, sizes in found.dims.items():
            new = [size for size in sizes if size not in function.dims[name]]
            if new:
                editor.add_values(editor.value(own, name), new)
    elif isinstance(found.dims, list) and not isinstance(function.dims, dict) and not found.avals:
        editor.add_values(own, found.dims[len(function.dims) :])
    else:
        editor.replace(own, flow(found.dims))


def _own(editor: TextEditor, node: Any, *steps: str) -> Any:
    found = editor.value(node, *steps)
    if found is None:
        msg = f"{'.'.join(steps)} is under defaults"
        raise CannotEdit(msg)
    return found


def _leaf_node(editor: TextEditor, node: Any, function: Function, argument: str, leaf: int) -> Any:
    positional = [*function.positional]
    if argument in positional:
        at = editor.value(node, "args", positional.index(argument), argument)
    else:
        at = editor.value(node, "kwargs", argument)
    found = leaf_nodes(at, Expanded(function).arguments[argument])[leaf]
    if found is None:
        msg = f"{argument} is in a tree that others may use"
        raise CannotEdit(msg)
    return found
