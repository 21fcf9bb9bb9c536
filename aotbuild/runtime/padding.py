"""Padding: how a call runs the executable of a larger size, and numpy arrays padded and cut.

The rules are the same for every backend; where arrays live is the backend's matter. No jax here.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from aotbuild.errors import AotbuildError, InvalidArgument
from aotbuild.format.aval import Aval
from aotbuild.format.index import Index
from aotbuild.format.padding import Fills, Padding, resized, volume
from aotbuild.format.signature import Function, Signature
from aotbuild.runtime.binding import Bound, Call, flatten, leaf_paths
from aotbuild.runtime.checked_blobs import aligned

if TYPE_CHECKING:
    from aotbuild.runtime.backend import Backend

Shape = tuple[int, ...]

# Plans that are cached for each function.
_MOST_PLANS = 1024


@dataclass(frozen=True)
class Disagreement:
    """Two leaves, counted from 0, that have different sizes for one dim."""

    dim: str
    leaf: int
    size: int
    other_leaf: int
    other_size: int

    def describe(self, paths: Sequence[str]) -> str:
        """Return a line for an error; `paths` are those of all leaves."""
        first = f"{self.size} in {paths[self.leaf]}"
        return f"pad: {self.dim} is {first} and {self.other_size} in {paths[self.other_leaf]}"


@dataclass(frozen=True)
class PadPlan:
    """How a call is padded: the sizes of its dims, those of its bucket, the bucket's signature key.

    `str(plan)` names the dims that grow, as `batch 3 → 8`.
    """

    padding: Padding
    given: Shape
    bucket: Shape
    key: str

    def __str__(self) -> str:
        sizes = zip(self.padding.dims, self.given, self.bucket, strict=True)
        return ", ".join(f"{dim.name} {have} → {want}" for dim, have, want in sizes if have != want)

    def leaves(self) -> Iterator[int]:
        """Yield the indices of the leaves that are padded."""
        for index, axes in enumerate(self.padding.leaves):
            if any(self.given[dim] != self.bucket[dim] for _, dim in axes):
                yield index

    def pad(self, leaf: int, array: Any) -> Any:
        """Return a numpy array of the bucket's shape, with the padding at the end of each axis."""
        axes = self.padding.leaves[leaf]
        shape = resized(axes, array.shape, self.bucket)
        larger = aligned(math.prod(shape) * array.dtype.itemsize).view(array.dtype).reshape(shape)
        fill(larger, self.fills(axes))
        larger[tuple(slice(size) for size in array.shape)] = array
        return larger

    def fills(self, axes: Sequence[tuple[int, int]]) -> Fills:
        """Return what is filled where, for the axes of a leaf or an output.

        The later dim owns the corners, so it is filled last and over the whole width.
        """
        dims, given, bucket = self.padding.dims, self.given, self.bucket
        ordered = sorted(axes, key=lambda pair: pair[1])
        return tuple((axis, given[dim], bucket[dim], dims[dim].value) for axis, dim in ordered)

    def cut_shape(self, output: int, shape: Shape) -> Shape | None:
        """Return the shape of an output without padding, or None if the output has none.

        ValueError if `shape` is not the bucket's.
        """
        axes = self.padding.outputs[output]
        if any(axis >= len(shape) or shape[axis] != self.bucket[dim] for axis, dim in axes):
            msg = f"result {output} of {list(shape)} is not that of {self}"
            raise ValueError(msg)
        cut = resized(axes, shape, self.given)
        return None if cut == shape else cut


def fill(larger: Any, fills: Fills) -> None:
    """Fill the padding of a numpy array; ValueError or OverflowError for a value it cannot hold."""
    for axis, start, end, value in fills:
        beyond = [slice(None)] * larger.ndim
        beyond[axis] = slice(start, end)
        larger[tuple(beyond)] = value


def find_plan(index: Index, function: Function, signature: Signature) -> PadPlan | None:
    """Return how a call is padded; None if it has executables of its own or fits no bucket."""
    padding = function.pad
    if padding is None or index.records(function.name, signature.key()):
        return None
    given = sizes_of(padding, signature.leaves)
    if given is None or isinstance(given, Disagreement):
        return None
    for bucket in buckets_for(padding, signature.leaves, given):
        key = padded_signature(padding, signature, bucket).key()
        if index.records(function.name, key):
            return PadPlan(padding, given, bucket, key)
    return None


def sizes_of(padding: Padding, leaves: Sequence[Aval]) -> Shape | Disagreement | None:
    """Return the sizes of the dims in a call, or where they disagree.

    None if the call has other leaves or ranks than the padding.
    """
    if len(leaves) != len(padding.leaves):
        return None
    found: dict[int, tuple[int, int]] = {}
    for number, (aval, axes) in enumerate(zip(leaves, padding.leaves, strict=True)):
        for axis, dim in axes:
            if axis >= len(aval.shape):
                return None
            size = aval.shape[axis]
            leaf, known = found.setdefault(dim, (number, size))
            if known != size:
                return Disagreement(padding.dims[dim].name, leaf, known, number, size)
    return tuple(found[dim][1] for dim in range(len(padding.dims)))


def buckets_for(padding: Padding, leaves: Sequence[Aval], given: Shape) -> list[Shape]:
    """Return the buckets that hold the sizes, those with the fewest padded elements first."""
    shapes = [aval.shape for aval in leaves]
    holding = [
        bucket
        for bucket in padding.buckets
        if bucket != given and all(map(int.__le__, given, bucket))
    ]
    return sorted(holding, key=lambda bucket: (volume(padding.leaves, shapes, bucket), bucket))


def padded_signature(padding: Padding, signature: Signature, bucket: Shape) -> Signature:
    """Return the signature of a call with the sizes of a bucket."""
    leaves = tuple(
        Aval(resized(axes, aval.shape, bucket), aval.dtype, aval.weak_type)
        for aval, axes in zip(signature.leaves, padding.leaves, strict=True)
    )
    return Signature(signature.tree, leaves, signature.statics)


def why_not(padding: Padding, signature: Signature, paths: Sequence[str]) -> list[str]:
    """Return lines for an error that say why a call fits no bucket; empty if nothing helps."""
    given = sizes_of(padding, signature.leaves)
    if given is None:
        return []
    if isinstance(given, Disagreement):
        return [given.describe(paths)]
    lines = []
    for index, (dim, size) in enumerate(zip(padding.dims, given, strict=True)):
        largest = max(bucket[index] for bucket in padding.buckets)
        if size > largest:
            lines.append(f"pad: {dim.name} is {size}; the largest bucket is {largest}")
    return lines


class PaddedCalls:
    """Pads the calls of one function that has `pad:` in the manifest."""

    def __init__(self, index: Index, function: Function, backend: Backend) -> None:
        self._index = index
        self._function = function
        self._backend = backend
        self._plans: dict[Hashable, PadPlan | None] = {}

    def plan(self, bound: Bound) -> PadPlan | None:
        """Return how a bound call is padded, None if it is not; raises what `flatten` raises.

        Plans are cached by what decides the avals, so that a known call makes no signature.
        """
        try:
            leaves, treedef = self._backend.trees.flatten((bound.args, bound.kwargs))
        except ValueError:
            return self.plan_of(flatten(bound, self._backend))
        facts = tuple(map(self._backend.padding.aval_key, leaves))
        if None in facts:
            return self.plan_of(flatten(bound, self._backend))
        key = (treedef, facts, bound.statics_key)
        try:
            return self._plans[key]
        except KeyError:
            plan = self.plan_of(flatten(bound, self._backend))
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            self._plans[key] = plan
            return plan

    def plan_of(self, call: Call) -> PadPlan | None:
        """Return how a flattened call is padded, None if it is not."""
        return find_plan(self._index, self._function, call.signature)

    def pad(self, plan: PadPlan, bound: Bound) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the padded arguments; InvalidArgument for one that cannot be padded."""
        trees, arrays = self._backend.trees, self._backend.padding
        leaves, treedef = trees.flatten((bound.args, bound.kwargs))
        for index in plan.leaves():
            problem = arrays.problem(leaves[index])
            if problem:
                path = leaf_paths(bound, trees)[index]
                raise InvalidArgument(self._function.name, path, *problem)
            try:
                leaves[index] = arrays.pad(
                    leaves[index], partial(plan.pad, index), plan.fills(plan.padding.leaves[index])
                )
            except (ValueError, OverflowError) as err:  # a value that the dtype does not have
                msg = f"{self._function.name}: padding failed: {err}; rebuild the wheel"
                raise AotbuildError(msg) from err
        args, kwargs = treedef.unflatten(leaves)
        return args, kwargs

    def cut(self, plan: PadPlan, result: Any) -> Any:
        """Return the result of a padded call without padding."""
        outputs, out_tree = self._backend.trees.flatten(result)
        return out_tree.unflatten(self._cut(plan, outputs))

    def _cut(self, plan: PadPlan, outputs: Sequence[Any]) -> list[Any]:
        count, name = len(plan.padding.outputs), self._function.name
        if len(outputs) != count:
            msg = f"{name}: {len(outputs)} results, and padding for {count}; rebuild the wheel"
            raise AotbuildError(msg)
        try:
            shapes = [plan.cut_shape(index, array.shape) for index, array in enumerate(outputs)]
        except ValueError as err:
            msg = f"{name}: {err}; rebuild the wheel"
            raise AotbuildError(msg) from err
        rows = zip(outputs, shapes, map(plan.fills, plan.padding.outputs), strict=True)
        cut = self._backend.padding.cut
        return [
            array if shape is None else cut(array, shape, fills) for array, shape, fills in rows
        ]
