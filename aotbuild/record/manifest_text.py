"""The text of a manifest: a new one, or an existing one with entries added; and its file.

What is there stays as it is written, comments included: lines are inserted, or take the place of an
entry with a TODO. Positions are those of PyYAML's nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from aotbuild.errors import ManifestError, ProjectError
from aotbuild.format.files import read_regular, write_whole
from aotbuild.manifest import Function, Manifest, parse_manifest
from aotbuild.manifest.nodes import Problems
from aotbuild.manifest.reader import read_yaml
from aotbuild.manifest.schema import schema_text
from aotbuild.record.entries import Entry
from aotbuild.record.entry_text import function_lines
from aotbuild.record.specs import TODO

_SCHEMA_FILE = "aotbuild.schema.json"
SCHEMA_LINE = f"# yaml-language-server: $schema={_SCHEMA_FILE}"
# What an unfinished entry does not keep, as it was observed.
_OBSERVED = ("call", "args", "kwargs", "dims", "static", "signatures", "pad", "donate", "wrap")


class CannotEdit(Exception):
    """A place in a manifest cannot be changed without losing something; the message says what."""


class ManifestText:
    """A manifest as it is written: what it says, and its unfinished entries, which have a TODO.

    ManifestError if the rest of it is not valid.
    """

    def __init__(self, text: str, filename: str) -> None:
        self.text, self._filename = text, filename
        if read_yaml(text, problems := Problems(filename)) is None:
            problems.raise_any()  # too large, too deep, or not YAML
        self._root: Any = yaml.compose(text, Loader=yaml.SafeLoader)
        self._functions = _value(self._root, "functions")
        entries = self._functions.value if isinstance(self._functions, yaml.MappingNode) else []
        self._entries = {name: each for each in entries if (name := _name(each[0]))}
        todo = {name: node for name, (_, node) in self._entries.items() if _has_todo(node)}
        self.unfinished = {
            name: getattr(_value(node, "call"), "value", "") for name, node in todo.items()
        }
        self.model = self._parsed(text, todo)

    @property
    def functions(self) -> dict[str, Function]:
        """Its finished entries by name."""
        return dict(self.model.functions) if self.model else {}

    @property
    def package(self) -> str:
        """The import package that it is for."""
        return str(getattr(_value(self._root, "package"), "value", ""))

    def with_entries(self, added: dict[str, Entry]) -> str:
        """Return the text with entries added, or in the place of unfinished ones of their name.

        CannotEdit if that would change anything else.
        """
        if not isinstance(self._functions, yaml.MappingNode) or self._functions.flow_style:
            msg = "its functions are not a map in block style"
            raise CannotEdit(msg)
        lines = self.text.split("\n")
        edits: list[tuple[int, int, list[str]]] = []
        indent = self._functions.start_mark.column
        for name, entry in added.items():
            if name in self._entries:
                key, node = self._entries[name]
                kept = self._kept(node, entry)
                new = function_lines(name, entry, indent, kept)
                edits.append((key.start_mark.line, _last_line(node) + 1, new))
        end = _last_line(self._functions) + 1
        fresh = [(name, entry) for name, entry in added.items() if name not in self._entries]
        made = [line for n, e in fresh for line in ("", *function_lines(n, e, indent))]
        edits.append((end, end, made))
        for start, stop, replacement in sorted(edits, key=lambda edit: edit[0], reverse=True):
            lines[start:stop] = replacement
        text = "\n".join(lines)
        self._prove(text, added)
        return text

    def _kept(self, node: Any, entry: Entry) -> dict[str, Any]:
        """Return the options of an unfinished entry that a person wrote."""
        old = yaml.SafeLoader("").construct_document(node) if node.value else {}
        pairs = old.items() if isinstance(old, dict) else ()
        return {k: v for k, v in pairs if k not in (*_OBSERVED, *entry.body) and TODO not in str(v)}

    def _parsed(self, text: str, without: Collection[str]) -> Manifest | None:
        """Return what a text says without some functions; None if there are no others."""
        root: Any = yaml.compose(text, Loader=yaml.SafeLoader)
        functions = _value(root, "functions")
        entries = functions.value if isinstance(functions, yaml.MappingNode) else []
        lines = text.split("\n")
        for key, node in reversed(entries):
            if _name(key) in without:
                # The positions of the others stay those that people see.
                count = _last_line(node) + 1 - key.start_mark.line
                lines[key.start_mark.line : key.start_mark.line + count] = [""] * count
        is_empty = not [key for key, _ in entries if _name(key) not in without]
        if is_empty and isinstance(root, yaml.MappingNode) and (entries or _is_null(functions)):
            return None
        return parse_manifest("\n".join(lines), self._filename)

    def _prove(self, text: str, added: dict[str, Entry]) -> None:
        """Read a new text: what was not meant to change did not."""
        todo = {name for name, entry in added.items() if entry.todos}
        try:
            new = self._parsed(text, {*(self.unfinished.keys() - added.keys()), *todo})
        except (ManifestError, yaml.YAMLError) as err:
            msg = f"the new text would not be valid: {err}"
            raise CannotEdit(msg) from err
        found = dict(new.functions) if new else {}
        for name, function in self.functions.items():
            if found.get(name) != function:
                msg = f"{name} would change"
                raise CannotEdit(msg)


def new_text(package: str, targets: Iterable[str], entries: dict[str, Entry]) -> str:
    """Return the text of a new manifest."""
    lines = [SCHEMA_LINE, "version: 1", f"package: {package}", f"targets: [{', '.join(targets)}]"]
    lines.append("functions:")
    for number, (name, entry) in enumerate(entries.items()):
        lines += [*([""] if number else []), *function_lines(name, entry)]
    return "\n".join(lines) + "\n"


# --- the file -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FileChange:
    """A file and its new text; `before` is the text that it was made from, None for a new file."""

    path: Path
    before: str | None
    after: str

    @property
    def is_change(self) -> bool:
        """Whether there is anything to write."""
        return self.before != self.after


def schema_changes(folder: Path) -> list[FileChange]:
    """Return the change that writes the JSON schema into a folder; none if one is there."""
    path = folder / _SCHEMA_FILE
    if path.exists():
        return []
    return [FileChange(path, None, schema_text())]


def read_text(path: Path) -> str | None:
    """Return the text of a file with its line ends as they are; None if there is no file.

    OSError if it cannot be read; ProjectError if it is not UTF-8.
    """
    try:
        return read_regular(path).decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as err:
        raise ProjectError(str(path), f"not UTF-8: {err.reason}", "Save it as UTF-8.") from err


def write_changes(changes: Sequence[FileChange]) -> list[Path]:
    """Write files, each whole; return those that were written.

    ProjectError before any is written if one is not what its change was made from.
    """
    wanted = [change for change in changes if change.is_change]
    for change in wanted:
        if read_text(change.path) != change.before:
            problem = "it was changed meanwhile, and nothing was written"
            raise ProjectError(str(change.path), problem, "Run the command again.")
    for change in wanted:
        write_whole(change.path, change.after.encode())
    return [change.path for change in wanted]


# --- nodes ----------------------------------------------------------------------------------------


def _value(node: Any, key: str) -> Any:
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return next((value for name, value in pairs if name.value == key), None)


def _name(key: Any) -> str:
    """Return the name of an entry; nothing for a list or a map, which `parse_manifest` refuses."""
    return str(key.value) if isinstance(key, yaml.ScalarNode) else ""


def _is_null(node: Any) -> bool:
    return node is None or node.value in ("", "null", "~", [])


def _last_line(node: Any) -> int:
    """Return the last line of a node, without the comments after it."""
    children = node.value if isinstance(node, yaml.CollectionNode) else ()
    if children and not node.flow_style:
        last = children[-1][1] if isinstance(children[-1], tuple) else children[-1]
        if last.start_mark.index > node.start_mark.index:  # not an alias
            return _last_line(last)
    # An empty value ends where it begins; a block scalar on the line after it.
    end, start = node.end_mark, node.start_mark
    return int(end.line - 1 if end.column == 0 and end.line > start.line else end.line)


def _has_todo(node: Any) -> bool:
    waiting, seen = [node], set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:  # an alias, which may lead back to what it is in
            continue
        seen.add(id(node))
        if isinstance(node, yaml.ScalarNode):
            if TODO in node.value and node.style is None:
                return True
        else:
            pairs = [item if isinstance(item, tuple) else (item,) for item in node.value]
            waiting += [each for pair in pairs for each in pair]
    return False
