"""Errors of calls that no executable serves: why, and what to do. Imported for errors only.

A call that fits no signature is compared with one record of each: the error says what differs and
where, in at most ten lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aotbuild.errors import AotbuildError, InvalidArgument, NoExecutable, SignatureMismatch
from aotbuild.format.aval import Aval
from aotbuild.format.canonical import canonical_json
from aotbuild.format.index import Index
from aotbuild.format.record import Record
from aotbuild.format.signature import Function, Signature
from aotbuild.format.values import cut, shown
from aotbuild.format.words import one_of
from aotbuild.runtime.binding import Call, leaf_paths
from aotbuild.runtime.compatibility import (
    CHANGE_CALL,
    CHANGE_HOST,
    Verdict,
    check_x64,
    refusal_trace,
    remedy,
)
from aotbuild.runtime.package import Package
from aotbuild.runtime.padding import why_not
from aotbuild.runtime.tree_differences import TreeDifferences

if TYPE_CHECKING:
    from aotbuild.platforms.base import Host
    from aotbuild.runtime.backend import Backend, Fallback

_MOST_MISMATCHES = 1024
# Characters of one that is kept: a static value may be long.
_LONGEST_KEPT = 1 << 14
# XLA's words (jaxlib 0.10.2 and 0.12.0.1): only it knows which buffers it reuses.
_DONATED_TWICE = ("Attempt to donate the same buffer twice", "buffer that was previously donated")
_COPY_IT = "Pass a copy at one of these places, as jax.numpy.copy(x), or leave it out of donate:."
# Characters of an error in another.
_LONGEST_FOUND = 200
_MOST_LINES = 7
# Signatures that may get a line on x64.
_MOST_X64 = 3
# Avals in one line.
_MOST_VALUES = 4
_NUMBER = (bool, int, float, complex)


class Refusals:
    """Makes the errors of one function's calls; the search for a mismatch is done once for each."""

    def __init__(self, package: Package, function: Function, fallback: Fallback) -> None:
        self._package = package
        self._function = function
        self._fallback = fallback
        self._mismatches: dict[tuple[str, str, bool], SignatureMismatch] = {}

    def no_signature(self, call: Call, host: Host) -> SignatureMismatch:
        """Return the error of a call whose signature has no records."""
        known = self._mismatch(call, host)
        trace = [*known.trace, *self._package.absent]
        return SignatureMismatch(self._function.name, known.summary, trace, known.remedy)

    def remedy(self, call: Call, host: Host, first: str) -> str:
        """Return what to do about a call that no executable serves."""
        return remedy(first, self._fallback.serving(call, host))

    def all_refused(self, call: Call, verdicts: Sequence[Verdict], host: Host) -> NoExecutable:
        """Return the error of a call whose records are all refused by this host."""
        trace = [*refusal_trace(verdicts, host), *self._package.absent]
        summary, advice = "no executable may run here", self.remedy(call, host, CHANGE_HOST)
        return NoExecutable(self._function.name, summary, trace, advice)

    def placed_elsewhere(self, error: InvalidArgument) -> NoExecutable:
        """Return the error of a call that a fallback may serve where its arguments are."""
        summary = "the arguments are placed where no executable runs"
        trace = str(error).splitlines()
        return NoExecutable(self._function.name, summary, trace, CHANGE_HOST)

    def donated_twice(self, error: Exception, record: Record, call: Call) -> InvalidArgument | None:
        """Return the error for an array that is passed twice and donated, if XLA said so."""
        if not any(sign in str(error) for sign in _DONATED_TWICE):
            return None
        donated, first = set(record.calling.donated), dict[int, int]()
        for index, leaf in enumerate(call.leaves):
            other = first.setdefault(id(leaf), index)
            if other != index and donated & {other, index}:
                paths = leaf_paths(call.bound, self._package.backend.trees)
                expected = "an array that is at one place only, because its buffer is donated"
                found = f"the array that is also {paths[other]}"
                name = self._function.name
                return InvalidArgument(name, paths[index], expected, found, _COPY_IT)
        return None

    def _mismatch(self, call: Call, host: Host) -> SignatureMismatch:
        key = (call.signature.key(), host.platform, host.x64)
        known = self._mismatches.get(key)
        if known is None:
            if len(self._mismatches) >= _MOST_MISMATCHES:
                self._mismatches.clear()
            backend = self._package.backend
            advice = self.remedy(call, host, CHANGE_CALL)
            known = signature_mismatch(call, backend, self._package.index, host, advice)
            if len(str(known)) <= _LONGEST_KEPT:
                self._mismatches[key] = known
        return known


def not_made(record: Record, error: BaseException) -> AotbuildError:
    """Return the error of a result whose types do not take the parts that a record has for them."""
    found = cut(f"{type(error).__name__}: {error}", _LONGEST_FOUND)
    msg = (
        f"{record}: calling.out_tree: the result cannot be made\n"
        f"  expected types that take their parts\n  found    {found}\n"
        "Install the packages that define its types, in the versions of the build; or reinstall "
        "the wheel."
    )
    return AotbuildError(msg)


# --- calls that fit no signature ----------------------------------------------------------------


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
    call: Call, backend: Backend, index: Index, host: Host, advice: str
) -> SignatureMismatch:
    """Return the error for a call that fits no signature of its function."""
    function = call.bound.function
    trees = TreeDifferences(call, backend.trees)
    compared = _compare_all(call, trees, index.first_records(function.name))
    if not compared:
        return SignatureMismatch(function.name, "no signature was compiled", [], advice)
    compared.sort(key=lambda each: _distance(call, each))
    nearest = compared[0]
    paths = leaf_paths(call.bound, backend.trees)
    leaves = list(_leaf_lines(call, paths, compared)) if nearest.same_trees else []
    lines = [*nearest.lines, *leaves]
    if not lines:  # each leaf fits some signature, but no signature fits all of them
        lines = list(_leaf_lines(call, paths, [nearest]))
    lines = _cut(lines, _MOST_LINES)
    lines += why_not(function.pad, call.signature, paths) if function.pad else []
    lines += list(_x64_lines(call, compared[:_MOST_X64], host))[:1]
    label = nearest.record.label
    summary = f"no signature of {len(compared)} fits this call; the nearest is {label}"
    return SignatureMismatch(function.name, summary, lines, advice)


def _compare_all(call: Call, trees: TreeDifferences, records: Iterable[Record]) -> list[_Compared]:
    """Compare a call with each signature; static values and trees that are shared, once."""
    known: dict[bytes, tuple[tuple[str, ...], bool]] = {}
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
