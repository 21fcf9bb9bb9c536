"""The signatures that are nearest to a call which fits none, found by their outlines alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from heapq import nsmallest
from typing import Any, TypeAlias

from aotbuild.format.signature import Outline, Signature
from aotbuild.format.tree import Tree
from aotbuild.runtime.binding import Call

# (in how many ways it differs, sum of the differences between sizes, key of the signature)
Distance: TypeAlias = tuple[int, int, str]
# How the trees of a call differ from those of a signature, a line each.
CompareTrees: TypeAlias = Callable[[Tree], list[str]]

_TREE_WEIGHT = 1000
_NO_SIZES: tuple[int, ...] = ()


@dataclass(frozen=True)
class Rest:
    """What a signature has beside its leaves: static values, and how its trees differ."""

    statics: dict[str, Any]
    trees: tuple[str, ...]


@dataclass(frozen=True)
class Nearest:
    """The number of signatures, the nearest, and the key of the nearest with room.

    A signature has room for a call that differs in sizes only, none of which is larger. `rests` are
    the different ones of all signatures. `columns` has, for each leaf, the different avals of all
    signatures whose trees are those of the call.
    """

    count: int
    distances: tuple[Distance, ...]
    room: str | None
    rests: tuple[Rest, ...]
    columns: tuple[tuple[str, ...], ...]


def find_nearest(
    call: Call, compare_trees: CompareTrees, outlines: Iterable[Outline], keep: int
) -> Nearest:
    """Return the nearest signatures, at most `keep`; the key decides between equally near ones."""
    ruler, every = _Ruler(call, compare_trees), list(outlines)
    measured = [ruler.measure(outline) for outline in every]
    nearest = tuple(nsmallest(keep, (distance for distance, _ in measured)))
    room = min((distance for distance, has_room in measured if has_room), default=None)
    columns = zip(
        *(leaves for _, leaves, rest in every if not ruler.rests[rest].trees), strict=False
    )
    return Nearest(
        len(measured),
        nearest,
        room[2] if room else None,
        tuple(ruler.rests.values()),
        tuple(tuple(dict.fromkeys(column)) for column in columns),
    )


class _Ruler:
    """Measures distances from one call; what several signatures share is compared once."""

    def __init__(self, call: Call, compare_trees: CompareTrees) -> None:
        self._statics = dict(call.signature.statics)
        self._compare_trees = compare_trees
        self._leaves = [str(aval) for aval in call.signature.leaves]
        self._split = {text: _split(text) for text in self._leaves}
        self.rests: dict[bytes, Rest] = {}
        self._around: dict[bytes, tuple[int, bool]] = {}
        self._pairs: dict[tuple[str, str], tuple[int, bool]] = {}

    def measure(self, outline: Outline) -> tuple[Distance, bool]:
        """Return the distance of a signature, and whether it has room for the call."""
        key, leaves, rest = outline
        lines, same_tree = self._around.get(rest) or self._compare_rest(rest)
        has_room, size = lines == 0, 0
        pairs = [pair for pair in zip(self._leaves, leaves, strict=False) if pair[0] != pair[1]]
        for pair in pairs:
            apart, fits = self._pairs.get(pair) or self._compare_leaf(pair)
            size += apart
            has_room = has_room and fits
        return (lines + len(pairs) * same_tree, size, key), has_room

    def _compare_rest(self, rest: bytes) -> tuple[int, bool]:
        """Return in how many ways statics and trees differ, and whether the trees are equal."""
        own = self._statics
        try:
            data = json.loads(b'{"leaves":[],"statics":' + rest + b"}")
            expected = Signature.from_json(data)
            known = Rest(dict(expected.statics), tuple(self._compare_trees(expected.tree)))
            lines = sum(repr(own.get(name)) != repr(want) for name, want in expected.statics)
            lines += len(known.trees)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            # Reading the record will say what is wrong.
            known, lines = Rest({}, ("malformed",)), _TREE_WEIGHT
        self.rests[rest] = known
        found = lines + (_TREE_WEIGHT if known.trees else 0), not known.trees
        self._around[rest] = found
        return found

    def _compare_leaf(self, pair: tuple[str, str]) -> tuple[int, bool]:
        """Return the sum of the differences in sizes, and whether the second aval has room."""
        kind, have = self._split[pair[0]]
        wanted_kind, want = _split(pair[1])
        apart = sum(abs(a - b) for a, b in zip(have, want, strict=False))
        alike = kind == wanted_kind and len(have) == len(want)
        found = apart, alike and all(a <= b for a, b in zip(have, want, strict=False))
        self._pairs[pair] = found
        return found


def _split(aval: str) -> tuple[str, tuple[int, ...]]:
    """Return the dtype part of an aval and its sizes."""
    kind, _, sizes = aval.partition("[")
    try:
        return kind, tuple(map(int, sizes[:-1].split(","))) if sizes != "]" else _NO_SIZES
    except ValueError:
        return aval, _NO_SIZES
