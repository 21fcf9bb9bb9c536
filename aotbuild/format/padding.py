"""Padding in the index: which axes of a function's arrays are padded dims."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isnan, nan, prod
from typing import Any

from aotbuild.format.canonical import lists, text, whole
from aotbuild.format.values import decode, encode

# For each array the axes that are a dim: (axis, index of the dim).
Axes = tuple[tuple[tuple[int, int], ...], ...]
# For each padded axis of an array: from where to where the padding is, and what it holds.
Fills = tuple[tuple[int, int, int, Any], ...]


@dataclass(frozen=True)
class PaddedDim:
    """A dim whose calls may be padded, and the value to pad with."""

    name: str
    value: bool | int | float


@dataclass(frozen=True)
class Padding:
    """How a call between compiled sizes is padded to a compiled size.

    `buckets` are the compiled sizes, in the order of `dims`, sorted. `leaves` are the axes of the
    leaves of the signature, `outputs` those of the leaves of the result. In a corner that two dims
    pad, the value of the later one wins.
    """

    dims: tuple[PaddedDim, ...]
    buckets: tuple[tuple[int, ...], ...]
    leaves: Axes
    outputs: Axes

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form; the inverse of `from_json`."""
        return {
            "dims": [[dim.name, encode(dim.value)] for dim in self.dims],
            "buckets": lists(self.buckets),
            "leaves": lists(self.leaves),
            "outputs": lists(self.outputs),
        }

    @classmethod
    def from_json(cls, data: Any) -> Padding:
        """Read what `to_json` wrote; TypeError or ValueError for anything else."""
        padding = cls(
            dims=tuple(PaddedDim(text(name), _value(value)) for name, value in data["dims"]),
            buckets=tuple(tuple(map(whole, bucket)) for bucket in data["buckets"]),
            leaves=_axes_from_json(data["leaves"]),
            outputs=_axes_from_json(data["outputs"]),
        )
        problem = _problem(padding)
        if problem:
            msg = f"padding: {problem}"
            raise ValueError(msg)
        return padding


def volume(axes: Axes, shapes: Iterable[tuple[int, ...]], sizes: tuple[int, ...]) -> int:
    """Return the number of elements of arrays of `shapes` whose dims have other `sizes`."""
    return sum(
        prod(resized(own, shape, sizes)) for own, shape in zip(axes, shapes, strict=True) if own
    )


def resized(
    axes: tuple[tuple[int, int], ...], shape: tuple[int, ...], sizes: tuple[int, ...]
) -> tuple[int, ...]:
    """Return a shape with the axes of dims set to their sizes."""
    changed = list(shape)
    for axis, dim in axes:
        changed[axis] = sizes[dim]
    return tuple(changed)


def one_nan(value: Any) -> Any:
    """Return a value; for NaN always the same object, so that containers of it compare equal."""
    return nan if isinstance(value, float) and isnan(value) else value


def _problem(padding: Padding) -> str | None:
    names, count = [dim.name for dim in padding.dims], len(padding.dims)
    if not names or len(set(names)) != count:
        return f"{names} are not names of dims, at least one and all different"
    ordered = list(padding.buckets) == sorted(set(padding.buckets))
    fit = all(len(b) == count and min(b) >= 0 for b in padding.buckets)
    if not padding.buckets or not ordered or not fit:
        return f"the buckets are not sizes of {names}, at least one and in order"
    for own in (*padding.leaves, *padding.outputs):
        axes = [axis for axis, _ in own]
        if axes != sorted(set(axes)) or any(not 0 <= axis < 64 for axis in axes):
            return f"{axes} are not axes of an array, in order"
        if any(not 0 <= dim < count for _, dim in own):
            return f"an axis is dim {max(dim for _, dim in own)} of {count}"
    used = {dim for own in padding.leaves for _, dim in own}
    missing = [name for index, name in enumerate(names) if index not in used]
    return f"no leaf has the dim {missing[0]!r}" if missing else None


def _value(data: Any) -> bool | int | float:
    value = one_nan(decode(data))
    if not isinstance(value, bool | int | float):
        msg = f"expected a number or a boolean, found {data!r}"
        raise TypeError(msg)
    return value


def _axes_from_json(data: Any) -> Axes:
    return tuple(tuple((whole(axis), whole(dim)) for axis, dim in own) for own in data)
