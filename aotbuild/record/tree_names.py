"""Large trees of arguments get a name, under `trees:` or in a file; equal ones share it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from aotbuild.format.canonical import canonical_json
from aotbuild.format.constructions import without_constructions
from aotbuild.format.tree_file import DescribedTree
from aotbuild.manifest.names import is_identifier
from aotbuild.record.entries import Entry, InFile
from aotbuild.record.trees_file import TREES_FILE

# A tree of more arrays is written under `trees:`, where it does not hide the other arguments.
_MOST_LEAVES = 6


class TreeNames:
    """Gives names to trees; `known` are those of the manifest as plain values, and of its file."""

    def __init__(self, known: Mapping[str, Any], in_file: Mapping[str, DescribedTree]) -> None:
        self._names = {_key(spec): name for name, spec in known.items()}
        self._files = {_file_key(tree): name for name, tree in in_file.items()}
        self._taken, self._known_in_file = {*known}, in_file
        self.new: dict[str, Any] = {}
        self.new_in_file: dict[str, DescribedTree] = {}

    @property
    def in_file(self) -> Mapping[str, DescribedTree]:
        """All trees of the file as it will be."""
        return {**self._known_in_file, **self.new_in_file}

    def place(self, function: str, entry: Entry) -> dict[str, Any]:
        """Return the body of an entry with the names of its trees."""
        body = entry.body
        if entry.args:
            args = [{name: self._spec(function, name, spec)} for name, spec in entry.args]
            body["args"] = args
        if entry.kwargs:
            body["kwargs"] = {n: self._spec(function, n, spec) for n, spec in entry.kwargs}
        return body

    def _spec(self, function: str, argument: str, spec: Any) -> Any:
        base = argument if is_identifier(argument) else "tree"
        if isinstance(spec, InFile):
            key = _file_key(spec.tree)
            if key not in self._files:
                name = _free(base, function, self.in_file)
                self._files[key] = name
                self.new_in_file[name] = spec.tree
            return {"file": TREES_FILE, "name": self._files[key]}
        if len([*_texts(spec)]) <= _MOST_LEAVES:
            return spec
        key = _key(spec)
        if key not in self._names:
            name = _free(base, function, self._taken)
            self._taken.add(name)
            self._names[key] = name
            self.new[name] = spec
        return {"tree": self._names[key]}


def _free(name: str, function: str, taken: Collection[str]) -> str:
    """Return a name for a tree: that of the argument, with that of the function if it is taken."""
    if name not in taken:
        return name
    base, number = f"{function}_{name}", 2
    name = base
    while name in taken:
        name, number = f"{base}_{number}", number + 1
    return name


def _texts(spec: Any) -> Iterator[str]:
    if isinstance(spec, str):
        yield spec
    elif isinstance(spec, dict | list):
        for item in spec.values() if isinstance(spec, dict) else spec:
            yield from _texts(item)


def _key(spec: Any) -> bytes:
    """Return what equal specs have in common, however they are spaced."""
    return canonical_json(_close(spec))


def _close(spec: Any) -> Any:
    if isinstance(spec, dict):
        return {str(key): _close(item) for key, item in spec.items()}
    if isinstance(spec, list):
        return [*map(_close, spec)]
    return spec.replace(" ", "") if isinstance(spec, str) else spec


def _file_key(tree: DescribedTree) -> bytes:
    return canonical_json([without_constructions(tree.tree), tree.leaves])
