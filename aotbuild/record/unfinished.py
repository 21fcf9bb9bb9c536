"""Entries that `aotbuild init` left with a TODO: a recording has what is missing."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import yaml

from aotbuild.manifest.nodes import Problems, plain, walk
from aotbuild.manifest.reader import read_yaml
from aotbuild.manifest.todo import TODO, spec_message
from aotbuild.record.edit import TextEditor

# What a recording knows better than the source.
_RECORDED = ("call", "args", "kwargs", "dims", "pad", "static")
_OF_A_MESH = ("in_shardings", "out_shardings", "explicit_axes")


def unfinished_entries(text: str) -> dict[str, str]:
    """Return the functions that have a TODO, in block style: name to call."""
    if read_yaml(text, Problems("")) is None:
        return {}  # too large or too deep for the editor, or no YAML
    try:
        editor = TextEditor(text)
    except yaml.YAMLError:  # such as an alias of nothing
        return {}
    found = {}
    for key, value in _entries(editor):
        if any(map(_is_todo, _scalars(value))):
            call = editor.value(value, "call")
            found[key.value] = call.value if isinstance(call, yaml.ScalarNode) else ""
    return found


def without_entries(text: str, names: Collection[str]) -> str:
    """Return a text without some functions."""
    editor = TextEditor(text)
    for key, value in _entries(editor):
        if key.value in names:
            editor.remove_lines(key, value)
    return editor.result()


def kept_options(text: str, name: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return a body with the options that an unfinished entry has besides."""
    root = read_yaml(text, Problems(""))
    old = plain(walk(root, ("functions", name))) if root else {}
    kept = {k: v for k, v in old.items() if k not in (*_RECORDED, *body) and not _has_todo(v)}
    found = {**body, **kept}
    return {k: v for k, v in found.items() if k not in _OF_A_MESH or found.get("mesh")}


def _entries(editor: TextEditor) -> Iterator[tuple[Any, Any]]:
    functions = editor.value(editor.root, "functions")
    if isinstance(functions, yaml.MappingNode) and not functions.flow_style:
        yield from (entry for entry in functions.value if isinstance(entry[0], yaml.ScalarNode))


def _scalars(node: Any) -> Iterator[Any]:
    # An alias may lead back to what it is in, or again and again to one node.
    waiting, seen = [node], set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.ScalarNode):
            yield node
        elif isinstance(node, yaml.MappingNode):
            waiting += [value for _, value in node.value]
        else:
            waiting += node.value


def _is_todo(node: Any) -> bool:
    return (node.value == TODO and node.style is None) or spec_message(node.value) is not None


def _has_todo(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(map(_has_todo, value.values() if isinstance(value, dict) else value))
    return bool(value == TODO)
