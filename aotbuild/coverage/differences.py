"""How a call that nothing serves differs from the compiled signature that is nearest to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from aotbuild.format.aval import Aval
from aotbuild.format.canonical import canonical_json
from aotbuild.format.signature import Signature
from aotbuild.format.tree import Tree
from aotbuild.format.values import shown

_SHOWN = 4
_OTHER_TREE = 1000


@dataclass(frozen=True)
class CompiledSignature:
    """A compiled signature: its label, and the names of its leaves."""

    label: str
    signature: Signature
    names: tuple[str, ...]


def nearest_lines(signature: Signature, known: Sequence[CompiledSignature]) -> tuple[str, ...]:
    """Return the nearest compiled signature and what differs, a line each."""
    if not known:
        return ("no signature of it is compiled",)
    nearest = min(known, key=lambda each: (*_distance(signature, each.signature), each.label))
    lines = [*_differences(signature, nearest)]
    more = len(lines) - _SHOWN
    lines = [*lines[:_SHOWN], *([f"and {more} more differences"] if more > 1 else lines[_SHOWN:])]
    return (f"nearest: {nearest.label}", *lines)


def _distance(found: Signature, expected: Signature) -> tuple[int, int]:
    """Return in how many ways signatures differ, and the sum of the differences between sizes."""
    apart = [*_static_names(found, expected)]
    if not _is_same_tree(found.tree, expected.tree):
        return len(apart) + _OTHER_TREE, 0
    pairs = [(a, b) for a, b in zip(found.leaves, expected.leaves, strict=True) if a != b]
    return len(apart) + len(pairs), sum(_apart(*pair) for pair in pairs)


def _apart(one: Aval, other: Aval) -> int:
    return sum(abs(a - b) for a, b in zip(one.shape, other.shape, strict=False))


def _differences(found: Signature, nearest: CompiledSignature) -> Iterator[str]:
    expected = nearest.signature
    given, wanted = dict(found.statics), dict(expected.statics)
    for name in _static_names(found, expected):
        words = [shown(each[name]) if name in each else "none" for each in (wanted, given)]
        yield f"static {name}: compiled with {words[0]}, called with {words[1]}"
    if not _is_same_tree(found.tree, expected.tree):
        if len(found.leaves) != len(expected.leaves):
            yield f"compiled for {len(expected.leaves)} arrays, called with {len(found.leaves)}"
        else:
            yield "the trees of the arguments, or static data in them, differ"
        return
    names = [*nearest.names, *(f"array {n}" for n in range(len(nearest.names), len(found.leaves)))]
    for name, have, want in zip(names, found.leaves, expected.leaves, strict=False):
        if have != want:
            yield f"{name}: compiled for {want}, called with {have}"


def _static_names(found: Signature, expected: Signature) -> Iterator[str]:
    given, wanted = dict(found.statics), dict(expected.statics)
    for name in sorted(given.keys() | wanted.keys()):
        if canonical_json(given.get(name)) != canonical_json(wanted.get(name)):
            yield name


def _is_same_tree(one: Tree, other: Tree) -> bool:
    return canonical_json(one) == canonical_json(other)
