"""How the trees of a call differ from those that were compiled, in lines. For errors only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import Any

from aotbuild.format.canonical import canonical_digest
from aotbuild.format.tree import LEAF, MARKERS, Tree, children_of, field_labels, type_words
from aotbuild.format.values import cut, shown
from aotbuild.format.words import did_you_mean
from aotbuild.runtime.binding import Call
from aotbuild.runtime.trees import Trees

_LONGEST = 60
_MOST_KEYS = 10


class TreeDifferences:
    """Compares the trees of one call with several that were compiled."""

    def __init__(self, call: Call, trees: Trees) -> None:
        self._call = call
        self._trees = trees

    def lines(self, expected: Tree) -> list[str]:
        """Return a line for each difference from a tree `(args, kwargs)`; none if it is equal."""
        bound, found = self._call.bound, self._call.signature.tree
        if _is_same(found, expected):
            return []
        lines: list[str] = []
        dynamic = bound.function.dynamic
        for group in (1, 2):
            have, want = children_of(found[group]), children_of(expected[group])
            names = list(dynamic[: len(have)]) if group == 1 else found[group][1]
            wanted = list(dynamic[: len(want)]) if group == 1 else expected[group][1]
            if names != wanted:
                here, there = {*names}, {*wanted}
                lines += [
                    f"{name}: compiled with it, called without" for name in sorted(there - here)
                ]
                lines += [
                    f"{name}: called with it, compiled without" for name in sorted(here - there)
                ]
                continue
            values = bound.args if group == 1 else [bound.kwargs[name] for name in names]
            for row in zip(names, values, have, want, strict=True):
                lines += self._walk(*row)
        return lines or ["the trees of the arguments differ"]

    def _walk(self, path: str, value: Any, found: Tree, expected: Tree) -> Iterator[str]:
        """Yield the differences of a subtree; `value` is what the call has there."""
        if _is_same(found, expected):
            return
        have, want = children_of(found), children_of(expected)
        steps = self._trees.children(value) if have else []
        if _kind(found) == _kind(expected):
            keys = _keys(found, expected, [step for step, _ in steps])
            if keys and (lines := [*_other_keys(path, *keys)]):
                yield from lines
                return
        if _kind(found) != _kind(expected) or len(have) != len(want):
            yield f"{path}: expected {_node(expected)}, found {_node(found)}"
            return
        if found[0] in MARKERS:
            yield from self._data(path, found[1], expected[1])
        if found[0] in ("namedtuple", "node"):
            yield from self._data(f"{path}(type)", found[1], expected[1])
        if found[0] == "node":
            yield from self._static(path, type(value), found[2], expected[2])
        for (step, child), *pair in zip(steps, have, want, strict=True):
            yield from self._walk(path + step, child, *pair)

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
            what = "its fields, its code or what its functions close over differ"
            yield f"{path}: compiled with another {_name(expected)}: {what}"
        else:
            compiled, called = _shown_apart(expected, found)
            yield f"{path}: compiled with {compiled}, called with {called}"


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


def _shown_apart(one: Any, other: Any) -> tuple[str, str]:
    """Return the texts of two that differ, from the first difference on if they begin alike."""
    if (first := _shown(one)) != (second := _shown(other)):
        return first, second
    texts = shown(one), shown(other)
    alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*texts, strict=False)))
    start = max(0, alike - _LONGEST // 2)
    first, second = (f"…{cut(text[start:], _LONGEST)}" for text in texts)
    return first, second


def _kind(tree: Tree) -> Any:
    """Return what must be equal before children and static data are compared."""
    if tree[0] in ("namedtuple", "node"):
        return tree[0], type_words(tree[1])
    return tree[0]


def _keys(found: Tree, expected: Tree, steps: list[str]) -> tuple[list[Any], list[Any]] | None:
    """Return the keys of two dicts, or of two nodes whose static data names their children.

    These are such as OrderedDict, flax's FrozenDict and State, and nnx modules.
    """
    if found[0] == "dict":
        return found[1], expected[1]
    if found[0] != "node":
        return None
    have, want = _items(found[2]) or [], _items(expected[2]) or []
    for names, wanted in ((have, want), *zip(map(_items, have), map(_items, want), strict=False)):
        if names and wanted and steps in ([f"[{n!r}]" for n in names], [f".{n}" for n in names]):
            return names, wanted
    return None


def _other_keys(path: str, found: list[Any], expected: list[Any]) -> Iterator[str]:
    """Yield a line for the keys that are missing, and one for those that are not expected."""
    here, there = {shown(key): key for key in found}, {shown(key): key for key in expected}
    missing = [key for key in there if key not in here]
    unexpected = [key for key in here if key not in there]
    near = [there[key] for key in missing]
    for index, key in enumerate(unexpected[:_MOST_KEYS]):
        unexpected[index] = key + did_you_mean(here[key], near)
    if missing:
        yield f"{path}: missing {_some(missing)}"
    if unexpected:
        yield f"{path}: unexpected {_some(unexpected)}"


def _some(words: Iterable[str]) -> str:
    """Return words joined, the first ten of many."""
    known = list(words)
    more = [f"and {len(known) - _MOST_KEYS} more"] if len(known) > _MOST_KEYS else []
    return ", ".join([*known[:_MOST_KEYS], *more])


def _node(tree: Tree) -> str:
    if tree == LEAF:
        return "an array"
    kind, count = tree[0], len(children_of(tree))
    if kind == "none":
        return "None"
    if kind in MARKERS:
        return f"static {_shown(tree[1])}" if kind == "static" else "a Variable once more"
    if kind == "dict":
        return f"a dict with keys {_some(map(shown, tree[1])) or '(none)'}"
    if kind in ("tuple", "list"):
        return f"a {kind} of {count}"
    return f"a {type_words(tree[1])} with {count} children"
