"""Mismatches: how a call differs from the signatures that were compiled, nearest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from aotbuild.errors import SignatureMismatch
from aotbuild.runtime.arguments import REMEDY, Call
from aotbuild.runtime.host import Host
from aotbuild.runtime.select import select
from aotbuild.spec.aval import Aval
from aotbuild.spec.function import Function
from aotbuild.spec.record import Record
from aotbuild.spec.signature import Signature
from aotbuild.spec.tree import LEAF, Tree, children_of
from aotbuild.spec.values import shown

_SHOWN_SIGNATURES = 3
_SHOWN_DIFFERENCES = 5
_TREE_WEIGHT = 1000


def signature_mismatch(call: Call, records: Sequence[Record], host: Host) -> SignatureMismatch:
    """Return the error for a call that fits no signature of these records."""
    function = call.bound.function
    # Of each signature the record that fits best here.
    nearest = _nearest(call, [verdict.record for verdict in select(records, host)])
    lines: list[str] = []
    for number, (record, differences) in enumerate(nearest[:_SHOWN_SIGNATURES], 1):
        lines.append(f"{number}. {record}")
        lines += [f"   {line}" for line in _shorten(differences)]
        lines += [f"   {reason}" for v in select([record], host) for reason in v.reasons]
    if len(nearest) > _SHOWN_SIGNATURES:
        more = len(nearest) - _SHOWN_SIGNATURES
        lines.append(f"and {more} more signature{'s' if more > 1 else ''}")
    summary = f"no signature of {len(nearest)} fits this call; the nearest:"
    if not nearest:
        summary = "no signature was compiled"
    return SignatureMismatch(function.name, summary, lines, REMEDY)


def differences(call: Call, expected: Signature) -> list[str]:
    """Return every way in which a call differs from a signature, each as one line."""
    found = call.signature
    lines = list(_static_differences(found.statics, expected.statics))
    function = call.bound.function
    if found.tree != expected.tree:
        lines += _tree_differences(function, found.tree, expected.tree)
        return lines
    pairs = zip(call.paths, found.leaves, expected.leaves, strict=True)
    lines += [_leaf_difference(path, have, want) for path, have, want in pairs if have != want]
    return lines


def _nearest(call: Call, records: Sequence[Record]) -> list[tuple[Record, list[str]]]:
    by_signature = {record.signature.key(): record for record in reversed(records)}
    pairs = [(record, differences(call, record.signature)) for record in by_signature.values()]
    return sorted(pairs, key=lambda pair: _distance(call, *pair))


def _distance(call: Call, record: Record, lines: list[str]) -> tuple[int, int, str]:
    tree = 0 if record.signature.tree == call.signature.tree else _TREE_WEIGHT
    pairs = zip(call.signature.leaves, record.signature.leaves, strict=False)
    size = sum(_size_distance(have, want) for have, want in pairs)
    return tree + len(lines), size, str(record)


def _size_distance(have: Aval, want: Aval) -> int:
    return sum(abs(a - b) for a, b in zip(have.shape, want.shape, strict=False))


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


def _shorten(lines: list[str]) -> list[str]:
    if len(lines) <= _SHOWN_DIFFERENCES:
        return lines
    return [*lines[:_SHOWN_DIFFERENCES], f"and {len(lines) - _SHOWN_DIFFERENCES} more differences"]
