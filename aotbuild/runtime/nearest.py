"""Nearness: how far a call is from each signature, told from outlines of the signatures."""

from __future__ import annotations

import json
from collections.abc import Iterable
from heapq import nsmallest

from aotbuild.frozen import dataclass
from aotbuild.runtime.arguments import Call
from aotbuild.runtime.differences import differences_around
from aotbuild.spec.outline import Outline
from aotbuild.spec.signature import Signature

_TREE_WEIGHT = 1000
_NO_SIZES: tuple[int, ...] = ()

# (ways in which it differs, sum of the differences between sizes, key of the signature)
Distance = tuple[int, int, str]


@dataclass(frozen=True)
class Nearest:
    """How many signatures there are, the nearest, and the key of the nearest with room.

    A signature has room for a call that differs in sizes only, and has no larger ones.
    """

    count: int
    distances: tuple[Distance, ...]
    room: str | None


def find_nearest(call: Call, outlines: Iterable[Outline], keep: int) -> Nearest:
    """Return the nearest signatures, at most `keep` of them, equally near ones by their keys."""
    ruler = _Ruler(call)
    measured = [ruler.measure(outline) for outline in outlines]
    nearest = tuple(nsmallest(keep, (distance for distance, _ in measured)))
    room = min((distance for distance, has_room in measured if has_room), default=None)
    return Nearest(len(measured), nearest, room[2] if room else None)


class _Ruler:
    """Measures from one call; what several signatures share is compared once."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._leaves = [str(aval) for aval in call.signature.leaves]
        self._split = {text: _split(text) for text in self._leaves}
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
        """Return how many ways statics and trees differ in, and whether the trees are one."""
        try:
            data = json.loads(b'{"leaves":[],"statics":' + rest + b"}")
            expected = Signature.from_json(data)
            same_tree = expected.tree == self._call.signature.tree
            lines = len(differences_around(self._call, expected))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            same_tree, lines = False, _TREE_WEIGHT  # reading the record will say what is wrong
        found = lines + (0 if same_tree else _TREE_WEIGHT), same_tree
        self._around[rest] = found
        return found

    def _compare_leaf(self, pair: tuple[str, str]) -> tuple[int, bool]:
        """Return how far the sizes of two avals are apart, and whether the second has room."""
        kind, have = self._split[pair[0]]
        wanted_kind, want = _split(pair[1])
        apart = sum(abs(a - b) for a, b in zip(have, want, strict=False))
        alike = kind == wanted_kind and len(have) == len(want)
        found = apart, alike and all(a <= b for a, b in zip(have, want, strict=False))
        self._pairs[pair] = found
        return found


def _split(aval: str) -> tuple[str, tuple[int, ...]]:
    """Return what is before the sizes of an aval, and the sizes."""
    kind, _, sizes = aval.partition("[")
    try:
        return kind, tuple(map(int, sizes[:-1].split(","))) if sizes != "]" else _NO_SIZES
    except ValueError:
        return aval, _NO_SIZES
