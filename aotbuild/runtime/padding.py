"""Padding: which calls run the executable of a larger size, and numpy arrays padded and cut.

Pure, and without jax: both doors decide and pad alike. What they put where is theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from aotbuild.errors import AotbuildError, InvalidArgument
from aotbuild.frozen import dataclass
from aotbuild.runtime import binding as arguments
from aotbuild.runtime.binding import Bound, Call
from aotbuild.spec.aval import Aval
from aotbuild.spec.index import Index
from aotbuild.spec.padding import Padding, resized, volume
from aotbuild.spec.signature import Function, Signature

if TYPE_CHECKING:
    from aotbuild.runtime.backends.protocol import Door

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Disagreement:
    """Two leaves that have different sizes where one dim is; leaves are counted from 0."""

    dim: str
    leaf: int
    size: int
    other_leaf: int
    other_size: int

    def describe(self, paths: Sequence[str]) -> str:
        """Return it for people; `paths` are those of the leaves."""
        first = f"{self.size} in {paths[self.leaf]}"
        return f"pad: {self.dim} is {first} and {self.other_size} in {paths[self.other_leaf]}"


@dataclass(frozen=True)
class Step:
    """A call that is padded: the sizes of its dims, those of its bucket, and the key of that."""

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
        """Return a numpy array as a larger one, the padding after what is there, on each axis."""
        import numpy as np

        axes = self.padding.leaves[leaf]
        larger = np.empty(resized(axes, array.shape, self.bucket), array.dtype)
        # The later dim has the corners, so it is filled in over the whole width of the others.
        for axis, dim in sorted(axes, key=lambda pair: pair[1]):
            beyond = [slice(None)] * array.ndim
            beyond[axis] = slice(self.given[dim], None)
            larger[tuple(beyond)] = self.padding.dims[dim].value
        larger[tuple(slice(size) for size in array.shape)] = array
        return larger

    def cut_shape(self, output: int, shape: Shape) -> Shape | None:
        """Return the shape of an output without its padding, or None if it has none.

        ValueError for a shape that is not the bucket's.
        """
        axes = self.padding.outputs[output]
        if any(axis >= len(shape) or shape[axis] != self.bucket[dim] for axis, dim in axes):
            msg = f"result {output} of {list(shape)} is not that of {self}"
            raise ValueError(msg)
        cut = resized(axes, shape, self.given)
        return None if cut == shape else cut


def sizes_of(padding: Padding, leaves: Sequence[Aval]) -> Shape | Disagreement | None:
    """Return the sizes of the dims in a call, where they disagree, or None if it is another one."""
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
    """Return the buckets that hold sizes, those with the fewest padded elements first."""
    shapes = [aval.shape for aval in leaves]
    holding = [
        bucket
        for bucket in padding.buckets
        if bucket != given and all(map(int.__le__, given, bucket))
    ]
    return sorted(holding, key=lambda bucket: (volume(padding.leaves, shapes, bucket), bucket))


def padded_signature(padding: Padding, signature: Signature, bucket: Shape) -> Signature:
    """Return a call's signature with the sizes of a bucket."""
    leaves = tuple(
        Aval(resized(axes, aval.shape, bucket), aval.dtype, aval.weak_type)
        for aval, axes in zip(signature.leaves, padding.leaves, strict=True)
    )
    return Signature(signature.tree, leaves, signature.statics)


def find_step(index: Index, function: Function, signature: Signature) -> Step | None:
    """Return how a call is padded; None if it is compiled for as it is, or fits no bucket."""
    padding = function.pad
    if padding is None or index.records(function.name, signature.key()):
        return None
    given = sizes_of(padding, signature.leaves)
    if given is None or isinstance(given, Disagreement):
        return None
    for bucket in buckets_for(padding, signature.leaves, given):
        key = padded_signature(padding, signature, bucket).key()
        if index.records(function.name, key):
            return Step(padding, given, bucket, key)
    return None


def why_not(padding: Padding, signature: Signature, paths: Sequence[str]) -> list[str]:
    """Return what an error says of padding, for a call that has no bucket; empty for nothing."""
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


_KEPT = 1024


class PaddedCalls:
    """The calls of one function that run the executable of a larger size."""

    def __init__(self, index: Index, function: Function, door: Door) -> None:
        self._index = index
        self._function = function
        self._door = door
        self._steps: dict[Hashable, Step | None] = {}

    def step(self, bound: Bound) -> Step | None:
        """Return how a call is padded, None if it is not; raises what `flatten` does."""
        try:
            leaves, treedef = self._door.trees.flatten((bound.args, bound.kwargs))
        except ValueError:
            return self.of(arguments.flatten(bound, self._door))
        facts = tuple(map(self._door.padding.fact, leaves))
        if None in facts:
            return self.of(arguments.flatten(bound, self._door))
        key = (treedef, facts, bound.statics_key)
        try:
            return self._steps[key]
        except KeyError:
            step = self.of(arguments.flatten(bound, self._door))
            if len(self._steps) >= _KEPT:
                self._steps.clear()
            self._steps[key] = step
            return step

    def of(self, call: Call) -> Step | None:
        """Return how a flattened call is padded, None if it is not."""
        return find_step(self._index, self._function, call.signature)

    def why_not(self, call: Call) -> list[str]:
        """Return what the error of a call without an executable says of padding."""
        pad = self._function.pad
        return why_not(pad, call.signature, call.paths) if pad else []

    def run(self, step: Step, bound: Bound, execute: Callable[..., Any]) -> Any:
        """Pad a call, execute it as `execute(statics key, *args, **kwargs)`, cut its results."""
        trees, arrays = self._door.trees, self._door.padding
        leaves, treedef = trees.flatten((bound.args, bound.kwargs))
        for index in step.leaves():
            problem = arrays.problem(leaves[index])
            if problem:
                path = arguments.flatten(bound, self._door).paths[index]
                raise InvalidArgument(self._function.name, path, *problem)
            try:
                leaves[index] = arrays.pad(step, index, leaves[index])
            except (ValueError, OverflowError) as err:  # a value that the dtype does not have
                msg = f"{self._function.name}: padding failed: {err}; rebuild the wheel"
                raise AotbuildError(msg) from err
        args, kwargs = treedef.unflatten(leaves)
        outputs, out_tree = trees.flatten(execute(bound.statics_key, *args, **kwargs))
        return out_tree.unflatten(self._cut(step, outputs))

    def _cut(self, step: Step, outputs: Sequence[Any]) -> list[Any]:
        count, name = len(step.padding.outputs), self._function.name
        if len(outputs) != count:
            msg = f"{name}: {len(outputs)} results, and padding for {count}; rebuild the wheel"
            raise AotbuildError(msg)
        try:
            shapes = [step.cut_shape(index, array.shape) for index, array in enumerate(outputs)]
        except ValueError as err:
            msg = f"{name}: {err}; rebuild the wheel"
            raise AotbuildError(msg) from err
        pairs = zip(outputs, shapes, strict=True)
        return [array if s is None else self._door.padding.cut(array, s) for array, s in pairs]
