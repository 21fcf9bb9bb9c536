"""How a call differs from what was compiled: what and where, in at most ten lines. For errors only.

The call is compared with one record of each signature.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from aotbuild.errors import SignatureMismatch
from aotbuild.format.aval import Aval
from aotbuild.format.canonical import canonical_json
from aotbuild.format.index import Index
from aotbuild.format.record import Record
from aotbuild.format.signature import Signature
from aotbuild.format.values import shown
from aotbuild.format.words import one_of
from aotbuild.platforms.base import Host
from aotbuild.runtime.binding import Call
from aotbuild.runtime.padding import why_not
from aotbuild.runtime.select import CHANGE_CALL, check_x64, remedy
from aotbuild.runtime.tree_differences import TreeDifferences

_MOST_LINES = 7
# Signatures that may get a line on x64.
_MOST_X64 = 3
# Avals in one line.
_MOST_VALUES = 4
_NUMBER = (bool, int, float, complex)


@dataclass(frozen=True)
class _Compared:
    """One signature beside a call: how the static values and trees differ, and its avals."""

    record: Record
    lines: tuple[str, ...]
    same_trees: bool

    @property
    def leaves(self) -> tuple[Aval, ...]:
        return self.record.signature.leaves


def signature_mismatch(
    call: Call, steps: Sequence[tuple[str, ...]], index: Index, host: Host, arrays: str
) -> SignatureMismatch:
    """Return the error for a call that fits no signature of its function.

    `steps` are the paths of the call's leaves, in steps. `arrays` is the kind of the backend.
    """
    function = call.bound.function
    compared = _compare_all(call, steps, index.first_records(function.name))
    if not compared:
        summary, advice = "no signature was compiled", remedy(arrays, CHANGE_CALL)
        return SignatureMismatch(function.name, summary, [], advice)
    compared.sort(key=lambda each: _distance(call, each))
    nearest = compared[0]
    paths = ["".join(step) for step in steps]
    leaves = list(_leaf_lines(call, paths, compared)) if nearest.same_trees else []
    lines = [*nearest.lines, *leaves]
    if not lines:  # each leaf fits some signature, but no signature fits all of them
        lines = list(_leaf_lines(call, paths, [nearest]))
    lines = _cut(lines, _MOST_LINES)
    lines += why_not(function.pad, call.signature, paths) if function.pad else []
    lines += list(_x64_lines(call, compared[:_MOST_X64], host))[:1]
    label = nearest.record.label
    summary = f"no signature of {len(compared)} fits this call; the nearest is {label}"
    return SignatureMismatch(function.name, summary, lines, remedy(arrays, CHANGE_CALL))


def _compare_all(
    call: Call, steps: Sequence[tuple[str, ...]], records: Iterable[Record]
) -> list[_Compared]:
    """Compare a call with each signature; static values and trees that are shared, once."""
    trees, known = TreeDifferences(call, steps), dict[bytes, tuple[tuple[str, ...], bool]]()
    found = []
    for record in records:
        rest = canonical_json([record.signature.tree, [*map(list, record.signature.statics)]])
        if rest not in known:
            known[rest] = _compare_rest(call, trees, record.signature)
        found.append(_Compared(record, *known[rest]))
    return found


def _compare_rest(
    call: Call, trees: TreeDifferences, expected: Signature
) -> tuple[tuple[str, ...], bool]:
    """Return how static values and trees differ, in lines, and whether the trees are the same."""
    own, wanted = dict(call.signature.statics), dict(expected.statics)
    # Compare the text: in Python True == 1 == 1.0.
    lines = [
        f"static {name}: expected {shown(want)}, found {shown(own.get(name))}"
        for name, want in wanted.items()
        if repr(own.get(name)) != repr(want)
    ]
    apart = trees.lines(expected.tree)
    return (*lines, *apart), not apart


def _distance(call: Call, signature: _Compared) -> tuple[Any, ...]:
    """Return how far a signature is: other trees, then the number of differences, then sizes."""
    pairs = [
        (have, want)
        for have, want in zip(call.signature.leaves, signature.leaves, strict=False)
        if have != want
    ]
    sizes = sum(
        abs(a - b) for have, want in pairs for a, b in zip(have.shape, want.shape, strict=False)
    )
    count = len(signature.lines) + (len(pairs) if signature.same_trees else 0)
    return not signature.same_trees, count, sizes, signature.record.signature.key()


def _leaf_lines(call: Call, paths: Sequence[str], compared: Sequence[_Compared]) -> Iterator[str]:
    """Yield a line for each leaf whose aval is that of no signature with the same trees."""
    columns = zip(*(each.leaves for each in compared if each.same_trees), strict=False)
    rows = zip(paths, call.leaves, call.signature.leaves, columns, strict=False)
    for path, leaf, have, avals in rows:
        if have in avals:
            continue
        wanted = sorted({*avals}, key=lambda want: _leaf_distance(have, want))
        line = f"{path}: expected {_values(list(map(str, wanted)))}, found {have}"
        if (have.shape, have.dtype) == (wanted[0].shape, wanted[0].dtype):
            line += f": {_strength(leaf, wanted[0])}"
        yield line


def _leaf_distance(have: Aval, want: Aval) -> tuple[Any, ...]:
    kind = (want.dtype != have.dtype, want.weak_type != have.weak_type)
    apart = sum(abs(a - b) for a, b in zip(have.shape, want.shape, strict=False))
    return (len(want.shape) != len(have.shape), *kind, apart, want.shape, want.dtype)


def _values(texts: Sequence[str]) -> str:
    """Return `a, b or c`; of many the first few."""
    if len(texts) <= _MOST_VALUES:
        return one_of(texts)
    return one_of([*texts[: _MOST_VALUES - 1], f"{len(texts) - _MOST_VALUES + 1} others"])


def _strength(leaf: Any, want: Aval) -> str:
    """Return which value has the weak type that is wanted; `leaf` has the other."""
    if not want.weak_type:
        is_number = isinstance(leaf, _NUMBER)
        return f"expected an array {'and no Python number' if is_number else 'without weak type'}"
    # jax gives Python's True no weak type, and an array's number has no shape.
    if want.dtype == "bool" or want.shape:
        return "expected a weakly typed array, as jax makes them of Python numbers"
    return "expected a Python number, or a weakly typed array"


def _x64_lines(call: Call, compared: Sequence[_Compared], host: Host) -> Iterator[str]:
    """Yield the verdict on jax_enable_x64 of signatures whose dtypes differ by that alone."""
    for each in compared:
        pairs = zip(call.signature.leaves, each.leaves, strict=False)
        apart = any(have.needs_x64 != want.needs_x64 for have, want in pairs)
        reason = apart and check_x64(each.record, host)
        if reason:
            yield reason


def _cut(lines: list[str], most: int) -> list[str]:
    if len(lines) <= most:
        return lines
    return [*lines[: most - 1], f"and {len(lines) - most + 1} more differences"]
