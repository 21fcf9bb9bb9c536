"""Signature mismatches: how a call differs from the compiled signatures, nearest first.

What differs from all of them is said once. The nearest signatures are listed only if something else
differs, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from aotbuild.errors import SignatureMismatch
from aotbuild.format.aval import NARROWED, Aval
from aotbuild.format.index import Index
from aotbuild.format.record import Record
from aotbuild.format.signature import Signature
from aotbuild.format.tree import Tree
from aotbuild.format.values import shown
from aotbuild.format.words import one_of
from aotbuild.platforms.base import Host
from aotbuild.runtime.binding import Call
from aotbuild.runtime.nearest import Nearest, find_nearest
from aotbuild.runtime.padding import Disagreement, buckets_for, padded_signature, sizes_of
from aotbuild.runtime.remedies import Cause, remedy
from aotbuild.runtime.select import judge, select
from aotbuild.runtime.signatures import label_of
from aotbuild.runtime.tree_words import TreeWords, is_same

_SHOWN_SIGNATURES = 3
_SHOWN_DIFFERENCES = 5
# Avals or static values of one line.
_SHOWN_VALUES = 4
# Signatures whose records are read; among equally near ones, the order of their names decides.
_READ = 16


def signature_mismatch(
    call: Call, steps: Sequence[tuple[str, ...]], index: Index, host: Host, arrays: str
) -> SignatureMismatch:
    """Return the error for a call that fits no signature of its function.

    `steps` are the paths of the call's leaves, in steps. All signatures are compared by their
    outlines; only records of the nearest are read. `arrays` is the kind of the backend.
    """
    name = call.bound.function.name
    passed, call = call.signature.leaves, _as_padded(call)
    comparison = Comparison(call, steps, passed)
    found = find_nearest(call, comparison.trees, index.outlines(name), _READ)
    if not found.count:
        return SignatureMismatch(name, "no signature was compiled", [], remedy(call, (), arrays))
    best = {key: index.records(name, key)[0] for *_, key in found.distances}
    order = sorted(found.distances, key=lambda item: (*item[:2], label_of(best[item[2]])))
    nearest = [best[key] for *_, key in order]
    common = comparison.common(found)
    others = [comparison.lines(record.signature, common) for record in nearest]
    lines = _cut([difference.line for difference in common if difference.line])
    is_listed = all(others)
    lines += _list(nearest, others, found.count) if is_listed else []
    lines += _feedback_hint(call, steps, nearest[:1])
    reasons = [*_x64_reason(call, nearest, host)]
    lines += reasons
    room = select(index.records(name, found.room), host)[0] if found.room else None
    switch = ("off" if host.x64 else "on") if reasons else ""
    causes = [
        replace(each.cause, switch=switch if comparison.is_of_x64(each) else "")
        for each in common
        if each.line
    ]
    causes += [Cause("combination")] if is_listed else []
    larger = room.record if room and room.fits and _is_padded(call, nearest, room.record) else None
    summary = f"no signature of {found.count} fits this call{'; the nearest:' * is_listed}"
    words = remedy(call, causes, arrays, nearest[0], larger)
    return SignatureMismatch(name, summary, lines, words)


def _as_padded(call: Call) -> Call:
    """Return a call with the sizes that it is padded to: padding mends them, so they are not wrong.

    A call that has a bucket's size, or fits none, stays as it is.
    """
    padding, signature = call.bound.function.pad, call.signature
    given = sizes_of(padding, signature.leaves) if padding else None
    if padding is None or given is None or isinstance(given, Disagreement):
        return call
    buckets = buckets_for(padding, signature.leaves, given)
    if given in padding.buckets or not buckets:
        return call
    return replace(call, signature=padded_signature(padding, signature, buckets[0]))


def _list(nearest: Sequence[Record], others: Sequence[Sequence[str]], count: int) -> Iterator[str]:
    for number, (record, lines) in enumerate(zip(nearest, others, strict=True), 1):
        if number > _SHOWN_SIGNATURES:
            break
        yield f"{number}. {label_of(record)}"
        yield from (f"   {line}" for line in _cut(lines))
    if count > _SHOWN_SIGNATURES:
        more = count - _SHOWN_SIGNATURES
        yield f"and {more} more signature{'s' if more > 1 else ''}"


def _cut(lines: Sequence[str]) -> list[str]:
    if len(lines) <= _SHOWN_DIFFERENCES:
        return list(lines)
    more = len(lines) - _SHOWN_DIFFERENCES
    return [*lines[:_SHOWN_DIFFERENCES], f"and {more} more difference{'s' if more > 1 else ''}"]


def _is_padded(call: Call, nearest: Sequence[Record], room: Record) -> bool:
    """Return whether a call could be padded to a larger signature: whether sizes vary there.

    An array that has the same size in all signatures, as weights have, is wrong, not too small.
    """
    wanted = room.signature.leaves
    pairs = enumerate(zip(call.signature.leaves, wanted, strict=False))
    larger = [number for number, (has, aval) in pairs if has != aval]
    others = [record.signature.leaves for record in nearest]
    return all(any(o[n : n + 1] != (wanted[n],) for o in others) for n in larger)


def _feedback_hint(
    call: Call, steps: Sequence[tuple[str, ...]], nearest: Sequence[Record]
) -> Iterator[str]:
    """Yield that the manifest can have a call compiled that gets results of the call before.

    Such a result may have another dtype or weak type than the first argument.
    """
    found, wanted = call.signature, nearest[0].signature if nearest else None
    results = nearest[0].calling.outputs if nearest else ()
    if wanted is None or not is_same([found.tree, found.statics], [wanted.tree, wanted.statics]):
        return
    pairs = enumerate(zip(found.leaves, wanted.leaves, strict=True))
    apart = {
        n: has.shape == want.shape and has in results for n, (has, want) in pairs if has != want
    }
    # Only arrays of jax have this attribute, and all results are such.
    if apart and all(apart.values()) and all(hasattr(call.leaves[n], "weak_type") for n in apart):
        names = ", ".join(dict.fromkeys(steps[n][0] for n in apart))
        listed = f"[{names}]" if "," in names else names
        yield f"if this is a result of the call before: `feedback: {listed}` compiles both calls"


def _x64_reason(call: Call, nearest: Sequence[Record], host: Host) -> Iterator[str]:
    """Yield the verdict on a near signature if x64 gives the call its other dtypes."""
    for record in nearest[:_SHOWN_SIGNATURES]:
        pairs = zip(call.signature.leaves, record.signature.leaves, strict=False)
        apart = any(have.needs_x64 != want.needs_x64 for have, want in pairs)
        if apart and record.requires.x64 != host.x64:
            yield from (reason for reason in judge(record, host).reasons if "x64" in reason)
            return


@dataclass(frozen=True)
class Difference:
    """One difference from all signatures: `subject` is a leaf, the name of a static, or a line."""

    subject: int | str
    line: str
    cause: Cause


class Comparison:
    """Compares one call with several signatures; `steps` are the paths of its leaves, in steps.

    `passed` are the avals of the arguments, if the call has those that they are padded to.
    """

    def __init__(
        self, call: Call, steps: Sequence[tuple[str, ...]], passed: Sequence[Aval] = ()
    ) -> None:
        self.call = call
        self._passed = passed or call.signature.leaves
        self.statics = dict(call.signature.statics)
        self._paths = ["".join(path) for path in steps]
        self._arguments = [path[0] for path in steps]
        self._trees = TreeWords(call, steps)

    def common(self, found: Nearest) -> list[Difference]:
        """Return the ways in which the call differs from every signature."""
        rests = list(found.rests)
        trees = [line for line in rests[0].trees if all(line in rest.trees for rest in rests)]
        same = [Difference(line, line, Cause("tree")) for line in trees]
        for name, value in self.statics.items():
            wanted = {repr(rest.statics.get(name)): rest.statics.get(name) for rest in rests}
            # Compare the text: in Python True == 1 == 1.0.
            if repr(value) not in wanted:
                words = _values(sorted(map(shown, wanted.values())))
                line = f"static {name}: expected {words}, found {shown(value)}"
                same.append(Difference(name, line, Cause("static", name, found=shown(value))))
        return same + self._common_leaves(found.columns)

    def _common_leaves(self, columns: Sequence[Sequence[str]]) -> list[Difference]:
        groups: dict[Any, list[Difference]] = {}
        for number, (have, texts) in enumerate(
            zip(self.call.signature.leaves, columns, strict=False)
        ):
            if str(have) in texts:
                continue
            wanted = _by_nearness(have, map(Aval.parse, texts))
            words = self._leaf_words(number, have, wanted)
            path = self._paths[number]
            cause = Cause("leaf", path, have, wanted, isinstance(self.call.leaves[number], _NUMBER))
            difference = Difference(number, f"{path}: {words}", cause)
            # Weights of another dtype differ in the same way a hundred times.
            kind = (have.dtype, have.weak_type, wanted[0].dtype, wanted[0].weak_type)
            is_alike = {aval.shape for aval in wanted} == {have.shape}
            key = (self._arguments[number], kind) if is_alike else number
            groups.setdefault(key, []).append(difference)
        return [each for group in groups.values() for each in self._joined(group)]

    def is_of_x64(self, difference: Difference) -> bool:
        """Return whether a leaf would be what was compiled, if x64 were on, or off, instead."""
        have, wanted = difference.cause.have, difference.cause.wanted
        if have is None or have.weak_type != wanted[0].weak_type:
            return False
        wide, narrow = (have, wanted[0]) if have.needs_x64 else (wanted[0], have)
        if not wide.needs_x64 or narrow.dtype != NARROWED.get(wide.dtype):
            return False
        leaf = self.call.leaves[int(difference.subject)]
        return isinstance(leaf, _NUMBER) or str(getattr(leaf, "dtype", "")) == wide.dtype

    def _joined(self, group: Sequence[Difference]) -> Iterator[Difference]:
        """Yield the first of a group, which names the number of the others; those have no line."""
        first, *others = group
        argument, count = self._arguments[int(first.subject)], len(others)
        likewise = f", likewise {count} more array{'s' if count > 1 else ''} of {argument}"
        cause = replace(first.cause, likewise=count)
        yield Difference(first.subject, first.line + likewise * bool(count), cause)
        yield from (Difference(each.subject, "", each.cause) for each in others)

    def lines(self, expected: Signature, common: Sequence[Difference]) -> list[str]:
        """Return the ways in which the call differs from one signature, without the common ones."""
        found, said = self.call.signature, {difference.subject for difference in common}
        lines = [
            f"static {name}: expected {shown(want)}, found {shown(self.statics.get(name))}"
            for name, want in expected.statics
            if name not in said and repr(self.statics.get(name)) != repr(want)
        ]
        if not is_same(found.tree, expected.tree):
            return lines + [line for line in self.trees(expected.tree) if line not in said]
        return lines + [
            f"{self._paths[n]}: {self._leaf_words(n, have, [want])}"
            for n, (have, want) in enumerate(zip(found.leaves, expected.leaves, strict=True))
            if n not in said and have != want
        ]

    def _leaf_words(self, number: int, have: Aval, wanted: Sequence[Aval]) -> str:
        passed = self._passed[number]
        is_padded = passed != have and len(have.shape) == len(wanted[0].shape)
        found = f"{passed}, padded to {have}" if is_padded else passed
        line = f"expected {_values(list(map(str, wanted)))}, found {found}"
        if (have.shape, have.dtype) == (wanted[0].shape, wanted[0].dtype):
            return f"{line}: expected {_strength(self.call.leaves[number], wanted[0])}"
        return line

    def trees(self, expected: Tree) -> list[str]:
        """Return how the trees differ, a line each."""
        if is_same(self.call.signature.tree, expected):
            return []
        return self._trees.differences(expected)


_NUMBER = (bool, int, float, complex)


def _by_nearness(have: Aval, wanted: Iterable[Aval]) -> list[Aval]:
    def distance(want: Aval) -> tuple[Any, ...]:
        apart = sum(abs(a - b) for a, b in zip(have.shape, want.shape, strict=False))
        kind = (want.dtype != have.dtype, want.weak_type != have.weak_type)
        return (len(want.shape) != len(have.shape), *kind, apart, want.shape, want.dtype)

    return sorted(wanted, key=distance)


def _values(texts: Sequence[str]) -> str:
    """Return `a, b or c`; of many the first few."""
    if len(texts) <= _SHOWN_VALUES:
        return one_of(texts)
    return one_of([*texts[: _SHOWN_VALUES - 1], f"{len(texts) - _SHOWN_VALUES + 1} others"])


def _strength(leaf: Any, want: Aval) -> str:
    """Return which value has the weak type that is wanted; `leaf` has the other."""
    if not want.weak_type:
        if isinstance(leaf, _NUMBER):
            return "an array, not a Python number"
        return "an array without weak type"
    # jax gives Python's True no weak type, and an array's number has no shape.
    if want.dtype == "bool" or want.shape:
        return "a weakly typed array, as jax makes them of Python numbers alone"
    return "a Python number, or a weakly typed array"
