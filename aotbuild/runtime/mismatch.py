"""Signature mismatches: how a call differs from the compiled signatures, nearest first."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from heapq import nsmallest
from typing import Any

from aotbuild.errors import SignatureMismatch
from aotbuild.frozen import dataclass
from aotbuild.platforms.base import Host
from aotbuild.runtime.binding import REMEDY, Call
from aotbuild.runtime.select import Verdict, select
from aotbuild.runtime.tree_words import TreeWords, is_same
from aotbuild.spec.aval import Aval
from aotbuild.spec.index import Index
from aotbuild.spec.signature import Outline, Signature
from aotbuild.spec.values import shown

# (in how many ways it differs, sum of the differences between sizes, key of the signature)
Distance = tuple[int, int, str]

_TREE_WEIGHT = 1000
_NO_SIZES: tuple[int, ...] = ()
_SHOWN_SIGNATURES = 3
_SHOWN_DIFFERENCES = 5
# Signatures whose records are read; among equally near ones, the order of their names decides.
_READ = 16


def signature_mismatch(
    call: Call, steps: Sequence[tuple[str, ...]], index: Index, host: Host
) -> SignatureMismatch:
    """Return the error for a call that fits no signature of its function.

    `steps` are the paths of the call's leaves, in steps. All signatures are compared by their
    outlines; only records of the nearest are read.
    """
    name = call.bound.function.name
    comparison = Comparison(call, steps)
    found = find_nearest(comparison, index.outlines(name), _READ)
    keys = [key for *_, key in found.distances]
    # For each signature, the record that fits best here.
    best = {key: select(index.records(name, key), host)[0] for key in (*keys, found.room) if key}
    order = sorted(found.distances, key=lambda item: (*item[:2], str(best[item[2]].record)))
    nearest = [best[key] for *_, key in order]
    lines = list(_describe(comparison, nearest[:_SHOWN_SIGNATURES]))
    if found.count > _SHOWN_SIGNATURES:
        more = found.count - _SHOWN_SIGNATURES
        lines.append(f"and {more} more signature{'s' if more > 1 else ''}")
    lines += _feedback_hint(call, steps, nearest[:1])
    if found.room and call.bound.function.pad is None:
        lines += _pad_hint(call, nearest, best[found.room])
    summary = f"no signature of {found.count} fits this call; the nearest:"
    if not found.count:
        summary = "no signature was compiled"
    return SignatureMismatch(name, summary, lines, REMEDY)


def _describe(comparison: Comparison, nearest: Sequence[Verdict]) -> Iterator[str]:
    for number, verdict in enumerate(nearest, 1):
        yield f"{number}. {verdict.record}"
        lines = comparison.differences(verdict.record.signature)
        if len(lines) > _SHOWN_DIFFERENCES:
            more = len(lines) - _SHOWN_DIFFERENCES
            lines = [*lines[:_SHOWN_DIFFERENCES], f"and {more} more differences"]
        for line in (*lines, *verdict.reasons):
            yield f"   {line}"


def _pad_hint(call: Call, nearest: Sequence[Verdict], room: Verdict) -> Iterator[str]:
    """Yield that a larger signature could serve the call with `pad:`, if sizes vary there.

    An array that has the same size in all signatures, as weights have, is wrong, not too small.
    """
    wanted = room.record.signature.leaves
    pairs = enumerate(zip(call.signature.leaves, wanted, strict=False))
    larger = [number for number, (has, aval) in pairs if has != aval]
    others = [verdict.record.signature.leaves for verdict in nearest]
    if room.fits and all(any(o[n : n + 1] != (wanted[n],) for o in others) for n in larger):
        yield f"with `pad:` in the manifest this call could be padded to {room.record}"


def _feedback_hint(
    call: Call, steps: Sequence[tuple[str, ...]], nearest: Sequence[Verdict]
) -> Iterator[str]:
    """Yield that the manifest can have a call compiled that gets results of the call before.

    Such a result may have another dtype or weak type than the first argument.
    """
    found, wanted = call.signature, nearest[0].record.signature if nearest else None
    if wanted is None or not is_same([found.tree, found.statics], [wanted.tree, wanted.statics]):
        return
    pairs = enumerate(zip(found.leaves, wanted.leaves, strict=True))
    apart = {n: has.shape == want.shape for n, (has, want) in pairs if has != want}
    # Only arrays of jax have this attribute, and all results are such.
    if apart and all(apart.values()) and all(hasattr(call.leaves[n], "weak_type") for n in apart):
        names = ", ".join(dict.fromkeys(steps[n][0] for n in apart))
        listed = f"[{names}]" if "," in names else names
        yield f"if this is a result of the call before: `feedback: {listed}` compiles both calls"


# --- differences --------------------------------------------------------------------------------


class Comparison:
    """Compares one call with several signatures; `steps` are the paths of its leaves, in steps."""

    def __init__(self, call: Call, steps: Sequence[tuple[str, ...]]) -> None:
        self.call = call
        self._paths = ["".join(path) for path in steps]
        self._trees = TreeWords(call, steps)

    def differences(self, expected: Signature) -> list[str]:
        """Return every way in which the call differs from a signature, one line each."""
        found = self.call.signature
        lines = self.around(expected)
        if is_same(found.tree, expected.tree):
            avals = zip(found.leaves, expected.leaves, strict=True)
            lines += [
                _leaf_difference(path, leaf, *pair)
                for path, leaf, pair in zip(self._paths, self.call.leaves, avals, strict=True)
                if pair[0] != pair[1]
            ]
        return lines

    def around(self, expected: Signature) -> list[str]:
        """Return how static values and trees differ; leaves are not compared."""
        found = self.call.signature
        lines = list(_static_differences(found.statics, expected.statics))
        if not is_same(found.tree, expected.tree):
            lines += self._trees.differences(expected.tree)
        return lines


def _leaf_difference(path: str, leaf: Any, have: Aval, want: Aval) -> str:
    line = f"{path}: expected {want}, found {have}"
    if (have.shape, have.dtype) == (want.shape, want.dtype):
        return f"{line}: expected {_strength(leaf, want)}"
    return line


def _strength(leaf: Any, want: Aval) -> str:
    """Return which value has the weak type that is wanted; `leaf` has the other."""
    if not want.weak_type:
        if isinstance(leaf, bool | int | float | complex):
            return "an array, not a Python number"
        return "an array without weak type; x.astype(x.dtype) removes it"
    # jax gives Python's True no weak type, and an array's number has no shape.
    if want.dtype == "bool" or want.shape:
        return "a weakly typed array, as jax makes them of Python numbers alone"
    return "a Python number, or a weakly typed array"


def _static_differences(
    found: tuple[tuple[str, Any], ...], expected: tuple[tuple[str, Any], ...]
) -> Iterator[str]:
    values = dict(found)
    for name, want in expected:
        # Compare the text: in Python True == 1 == 1.0.
        if repr(values.get(name)) != repr(want):
            yield f"static {name}: expected {shown(want)}, found {shown(values.get(name))}"


# --- the nearest signatures ---------------------------------------------------------------------


@dataclass(frozen=True)
class Nearest:
    """The number of signatures, the nearest, and the key of the nearest with room.

    A signature has room for a call that differs in sizes only, none of which is larger.
    """

    count: int
    distances: tuple[Distance, ...]
    room: str | None


def find_nearest(comparison: Comparison, outlines: Iterable[Outline], keep: int) -> Nearest:
    """Return the nearest signatures, at most `keep`; the key decides between equally near ones."""
    ruler = _Ruler(comparison)
    measured = [ruler.measure(outline) for outline in outlines]
    nearest = tuple(nsmallest(keep, (distance for distance, _ in measured)))
    room = min((distance for distance, has_room in measured if has_room), default=None)
    return Nearest(len(measured), nearest, room[2] if room else None)


class _Ruler:
    """Measures distances from one call; what several signatures share is compared once."""

    def __init__(self, comparison: Comparison) -> None:
        self._comparison = comparison
        call = comparison.call
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
        """Return in how many ways statics and trees differ, and whether the trees are equal."""
        try:
            data = json.loads(b'{"leaves":[],"statics":' + rest + b"}")
            expected = Signature.from_json(data)
            same_tree = is_same(expected.tree, self._comparison.call.signature.tree)
            lines = len(self._comparison.around(expected))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            same_tree, lines = False, _TREE_WEIGHT  # reading the record will say what is wrong
        found = lines + (0 if same_tree else _TREE_WEIGHT), same_tree
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
