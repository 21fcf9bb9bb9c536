"""How the trees of a call differ from those that were compiled, in lines. For errors only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from aotbuild.format.canonical import canonical_digest
from aotbuild.format.tree import (
    LEAF,
    MARKERS,
    Tree,
    children_of,
    field_labels,
    type_words,
)
from aotbuild.format.values import cut, shown
from aotbuild.runtime.binding import Call

_LONGEST = 60


class TreeDifferences:
    """Compares the trees of one call with several that were compiled.

    `steps` are the paths of the call's leaves, in steps.
    """

    def __init__(self, call: Call, steps: Sequence[tuple[str, ...]]) -> None:
        self._call = call
        self._steps = steps

    def lines(self, expected: Tree) -> list[str]:
        """Return a line for each difference from a tree `(args, kwargs)`; none if it is equal."""
        function, found = self._call.bound.function, self._call.signature.tree
        if _is_same(found, expected):
            return []
        lines: list[str] = []
        leaf = 0
        for group, treedef in zip((1, 2), self._call.treedef.children(), strict=True):
            have, want = children_of(found[group]), children_of(expected[group])
            names = list(function.dynamic) if group == 1 else found[group][1]
            wanted = list(function.dynamic) if group == 1 else expected[group][1]
            if names[: len(have)] != wanted[: len(want)]:
                here, there = {*names[: len(have)]}, {*wanted[: len(want)]}
                lines += [f"{name}: compiled with it" for name in sorted(there - here)]
                lines += [f"{name}: called with it" for name in sorted(here - there)]
                leaf += treedef.num_leaves
                continue
            for name, child, *pair in zip(names, treedef.children(), have, want, strict=False):
                lines += self._walk(name, 1, leaf, child, *pair)
                leaf += child.num_leaves
        return lines or ["the trees of the arguments differ"]

    def _walk(
        self, path: str, depth: int, leaf: int, treedef: Any, found: Tree, expected: Tree
    ) -> Iterator[str]:
        """Yield the differences of a subtree, whose first leaf has this number."""
        if _is_same(found, expected):
            return
        have, want = children_of(found), children_of(expected)
        if _kind(found) != _kind(expected) or len(have) != len(want):
            yield f"{path}: expected {_node(expected)}, found {_node(found)}"
            return
        if found[0] in MARKERS:
            yield from self._data(path, found[1], expected[1])
        if found[0] in ("namedtuple", "node"):
            yield from self._data(f"{path}(type)", found[1], expected[1])
        if found[0] == "node":
            kind, _ = treedef.node_data()
            yield from self._static(path, kind, found[2], expected[2])
        for index, child in enumerate(treedef.children()):
            step = f"[{index}]"
            if found[0] == "dict":
                step = f"[{shown(found[1][index])}]"
            elif child.num_leaves:
                step = self._steps[leaf][depth]
            yield from self._walk(path + step, depth + 1, leaf, child, have[index], want[index])
            leaf += child.num_leaves

    # --- static data ----------------------------------------------------------------------------

    def _static(self, path: str, kind: type, found: Any, expected: Any) -> Iterator[str]:
        if isinstance(found, dict) and "ordered" in found:
            names, found = found["ordered"]
            wanted, expected = expected.get("ordered", [[], expected])
            if names != wanted:
                here, there = ", ".join(names), ", ".join(map(str, wanted))
                order = f"compiled in the order {there}; here it is {here}"
                yield f"{path}: {order}: set PYTHONHASHSEED=0, as builds do"
                return
        have, want = _items(found), _items(expected)
        if have is None or want is None or len(have) != len(want):
            yield from self._data(f"{path}<static>", found, expected)
            return
        for label, *pair in zip(field_labels(kind, len(have)), have, want, strict=True):
            yield from self._data(path + label, *pair)

    def _data(self, path: str, found: Any, expected: Any) -> Iterator[str]:
        if _is_same(found, expected):
            return
        have, want = _items(found), _items(expected)
        if have is not None and want is not None and len(have) == len(want):
            for index, pair in enumerate(zip(have, want, strict=True)):
                yield from self._data(f"{path}[{index}]", *pair)
        elif _name(found) and _name(found) == _name(expected):
            yield f"{path}: compiled with another {_name(expected)}"
        else:
            yield f"{path}: compiled with {_shown(expected)}, called with {_shown(found)}"


def _is_same(one: Any, other: Any) -> bool:
    """Return whether two descriptions are equal, which `==` cannot tell: 1 == 1.0 == True."""
    return canonical_digest(one) == canonical_digest(other)


def _items(data: Any) -> list[Any] | None:
    """Return the items of an encoded tuple or list, else None."""
    found = data.get("tuple") if isinstance(data, dict) else data
    return found if isinstance(found, list) else None


def _name(data: Any) -> str:
    """Return the name in a fingerprint; empty for anything else."""
    body = data.get("fingerprint") if isinstance(data, dict) else None
    return str(body[0]) if isinstance(body, list) and body else ""


def _shown(data: Any) -> str:
    if _name(data):
        return _name(data)
    if isinstance(data, dict) and "reference" in data:
        return f"that of {data['reference']}"
    if isinstance(data, dict) and isinstance(data.get("name"), str):
        return str(data["name"]).replace(":", ".")
    return cut(shown(data), _LONGEST)


def _kind(tree: Tree) -> Any:
    """Return what must be equal before children and static data are compared."""
    if tree[0] in ("namedtuple", "node"):
        return tree[0], type_words(tree[1])
    return tree[:2] if tree[0] == "dict" else tree[0]


def _node(tree: Tree) -> str:
    if tree == LEAF:
        return "an array"
    kind, count = tree[0], len(children_of(tree))
    if kind == "none":
        return "None"
    if kind in MARKERS:
        return f"static {_shown(tree[1])}" if kind == "static" else "a Variable once more"
    if kind == "dict":
        return f"a dict with keys {', '.join(map(shown, tree[1])) or '(none)'}"
    if kind in ("tuple", "list"):
        return f"a {kind} of {count}"
    return f"a {type_words(tree[1])} with {count} children"
