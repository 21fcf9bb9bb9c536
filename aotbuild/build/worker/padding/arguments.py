"""Arguments that padding is tried with, and how they are padded."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from aotbuild.spec.padding import Padding, resized

_LARGE = 100


def middle(padding: Padding, axes: tuple[tuple[int, int], ...]) -> float:
    """Return the value that an array is padded with, or 0 where others vanish beside it."""
    value = padding.dims[axes[0][1]].value
    return value if abs(value) < _LARGE else 0


def as_seeded(array: Any, _: float) -> Any:
    """Return an array as it is."""
    return array


def _above(array: Any, value: float) -> Any:
    return (value + np.abs(array)).astype(array.dtype) if _has_sign(array) else array


def _below(array: Any, value: float) -> Any:
    return (value - np.abs(array)).astype(array.dtype) if _has_sign(array) else array


def _has_sign(array: Any) -> bool:
    kinds = np.signedinteger, np.floating
    return any(jax.numpy.issubdtype(array.dtype, kind) for kind in kinds)


# A maximum shows padding only where no number is above it, a minimum where none is below.
KINDS = (as_seeded, _above, _below)


def pad_leaf(
    padding: Padding, leaf: Any, axes: tuple[tuple[int, int], ...], sizes: tuple[int, ...]
) -> Any:
    """Return a numpy array padded to the sizes of its dims; see `spec.padding` for corners.

    The runtime has the same in `runtime.padding`, which this side may not import.
    """
    array = np.asarray(leaf)
    for axis, dim in sorted(axes, key=lambda pair: pair[1]):
        shape = resized(((axis, dim),), array.shape, sizes)
        larger = np.full(shape, padding.dims[dim].value, array.dtype)
        larger[tuple(slice(size) for size in array.shape)] = array
        array = larger
    return array
