"""Differences between a call and a signature, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aotbuild.runtime.arguments import Call
from aotbuild.spec.aval import Aval
from aotbuild.spec.function import Function
from aotbuild.spec.signature import Signature
from aotbuild.spec.tree import LEAF, Tree, children_of
from aotbuild.spec.values import shown


def differences(call: Call, expected: Signature) -> list[str]:
    """Return every way in which a call differs from a signature, each as one line."""
    found = call.signature
    lines = differences_around(call, expected)
    if found.tree == expected.tree:
        pairs = zip(call.paths, found.leaves, expected.leaves, strict=True)
        lines += [_leaf_difference(path, *pair) for path, *pair in pairs if pair[0] != pair[1]]
    return lines


def differences_around(call: Call, expected: Signature) -> list[str]:
    """Return how static values and trees differ; the leaves are not looked at."""
    found = call.signature
    lines = list(_static_differences(found.statics, expected.statics))
    if found.tree != expected.tree:
        lines += _tree_differences(call.bound.function, found.tree, expected.tree)
    return lines


def _leaf_difference(path: str, have: Aval, want: Aval) -> str:
    line = f"{path}: expected {want}, found {have}"
    if (have.shape, have.dtype) == (want.shape, want.dtype):
        weak = "a Python number (weak type)" if want.weak_type else "an array, not a Python number"
        return f"{line}: expected {weak}"
    return line


def _static_differences(
    found: tuple[tuple[str, Any], ...], expected: tuple[tuple[str, Any], ...]
) -> Iterator[str]:
    values = dict(found)
    for name, want in expected:
        # Compared as text: in Python True == 1 == 1.0.
        if repr(values.get(name)) != repr(want):
            yield f"static {name}: expected {shown(want)}, found {shown(values.get(name))}"


def _tree_differences(function: Function, found: Tree, expected: Tree) -> list[str]:
    lines: list[str] = []
    for group in (1, 2):
        have, want = found[group], expected[group]
        names = list(function.dynamic) if group == 1 else sorted(function.keywords)
        pairs = zip(names, children_of(have), children_of(want), strict=False)
        for name, child, wanted in pairs:
            lines += _walk(name, child, wanted)
    return lines or ["the trees of the arguments differ"]


def _walk(path: str, found: Tree, expected: Tree) -> Iterator[str]:
    if found == expected:
        return
    have, want = children_of(found), children_of(expected)
    if _head(found) != _head(expected) or len(have) != len(want):
        yield f"{path}: expected {_node(expected)}, found {_node(found)}"
        return
    for step, child, wanted in zip(_steps(found), have, want, strict=True):
        yield from _walk(path + step, child, wanted)


def _head(tree: Tree) -> Any:
    return tree if tree == LEAF else tree[: len(tree) - len(children_of(tree))]


def _steps(tree: Tree) -> list[str]:
    if tree[0] == "dict":
        return [f"[{shown(key)}]" for key in tree[1]]
    return [f"[{index}]" for index in range(len(children_of(tree)))]


def _node(tree: Tree) -> str:
    if tree == LEAF:
        return "an array"
    kind, count = tree[0], len(children_of(tree))
    if kind == "none":
        return "None"
    if kind == "dict":
        return f"a dict with keys {', '.join(map(shown, tree[1])) or '(none)'}"
    if kind in ("tuple", "list"):
        return f"a {kind} of {count}"
    name = f"a {tree[1].replace(':', '.')}"
    return f"{name} with {count} children" + (f", data {tree[2]}" if kind == "node" else "")
