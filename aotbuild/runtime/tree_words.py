"""How the trees of a call differ from those that were compiled, in words. For errors only."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from aotbuild.format.canonical import canonical_digest
from aotbuild.format.facts import Facts, differing
from aotbuild.format.tree import (
    LEAF,
    MARKERS,
    Describer,
    Tree,
    children_of,
    field_labels,
    type_words,
)
from aotbuild.format.values import cut, shown
from aotbuild.runtime.binding import Call

_LONGEST = 60
# Differences inside one fingerprint that are shown.
_SHOWN = 3


class TreeWords:
    """Compares the trees of one call with several that were compiled."""

    def __init__(self, call: Call, steps: Sequence[tuple[str, ...]]) -> None:
        """Make it for a call; `steps` are the paths of its leaves, in steps."""
        self._call = call
        self._steps = steps
        self._compiled = {facts.digest: facts for facts in call.bound.function.facts}

    @cached_property
    def _called(self) -> dict[str, Facts]:
        function = self._call.bound.function
        describer = Describer(function.ignored, function.aliases, function.references)
        describer.describe(self._call.treedef)
        return {facts.digest: facts for facts in describer.facts()}

    def differences(self, expected: Tree) -> list[str]:
        """Return a line for each difference from a tree `(args, kwargs)`."""
        function, found = self._call.bound.function, self._call.signature.tree
        lines: list[str] = []
        leaf = 0
        for group, treedef in zip((1, 2), self._call.treedef.children(), strict=True):
            have, want = children_of(found[group]), children_of(expected[group])
            names = found[2][1] if group == 2 else function.dynamic[: len(have)]
            compiled = expected[2][1] if group == 2 else function.dynamic[: len(want)]
            if list(names) != list(compiled):
                apart = (
                    ({*compiled} - {*names}, "compiled with"),
                    ({*names} - {*compiled}, "called with"),
                )
                lines += [f"{name}: {word} it" for each, word in apart for name in sorted(each)]
                continue
            for name, child, *pair in zip(names, treedef.children(), have, want, strict=False):
                lines += self._walk(name, 1, leaf, child, *pair)
                leaf += child.num_leaves
        return lines or ["the trees of the arguments differ"]

    def _walk(
        self, path: str, depth: int, leaf: int, treedef: Any, found: Tree, expected: Tree
    ) -> Iterator[str]:
        """Yield the differences of a subtree, whose first leaf has this number."""
        if is_same(found, expected):
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
            step = self._step(depth, leaf, index, child, found)
            yield from self._walk(path + step, depth + 1, leaf, child, have[index], want[index])
            leaf += child.num_leaves

    def _step(self, depth: int, leaf: int, index: int, child: Any, tree: Tree) -> str:
        if tree[0] == "dict":
            return f"[{shown(tree[1][index])}]"
        return self._steps[leaf][depth] if child.num_leaves else f"[{index}]"

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
        if is_same(found, expected):
            return
        have, want = _items(found), _items(expected)
        if have is not None and want is not None and len(have) == len(want):
            for index, pair in enumerate(zip(have, want, strict=True)):
                yield from self._data(f"{path}[{index}]", *pair)
            return
        digests = _digest(found), _digest(expected)
        if all(digests):
            yield from self._parts(path, found, expected)
            return
        yield f"{path}: compiled with {_shown(expected)}, called with {_shown(found)}"

    def _parts(self, path: str, found: Any, expected: Any) -> Iterator[str]:
        """Yield what differs in two fingerprints, as far as it is known."""
        have = self._called.get(_digest(found))
        want = self._compiled.get(_digest(expected))
        if have is None or want is None:
            yield f"{path}: compiled with another {_shown(expected)}"
            return
        apart = differing(have, want)
        for part, now, was in apart[:_SHOWN]:
            yield f"{path}{part}: compiled with {was}, called with {now}"
        if not apart:
            yield f"{path}: compiled with another {_shown(expected)}, which differs deep inside"
        yield from _python(path, want)


def is_same(one: Any, other: Any) -> bool:
    """Return whether two descriptions are equal, which `==` cannot tell: 1 == 1.0 == True."""
    return canonical_digest(one) == canonical_digest(other)


def _python(path: str, compiled: Facts) -> Iterator[str]:
    """Yield that bytecode is of another version of Python, where some is in the digest."""
    here = ".".join(platform.python_version_tuple()[:2])
    if compiled.python and compiled.python != here:
        yield (
            f"{path}: holds code, which was compiled with Python {compiled.python} and differs "
            f"from that of Python {here}"
        )


def _items(data: Any) -> list[Any] | None:
    """Return the items of an encoded tuple or list, else None."""
    found = data.get("tuple") if isinstance(data, dict) else data
    return found if isinstance(found, list) else None


def _digest(data: Any) -> str:
    body = data.get("fingerprint") if isinstance(data, dict) else None
    return str(body[1]) if isinstance(body, list) and len(body) == 2 else ""


def _shown(data: Any) -> str:
    if _digest(data):
        return str(data["fingerprint"][0])
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
