"""Trees whose arrays calls take without a copy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from aotbuild.errors import AotbuildError
from aotbuild.format.aval import Aval, NotAnArray
from aotbuild.format.target import HOST
from aotbuild.runtime.buffers import aligned
from aotbuild.runtime.numpy.arrays import (
    DeviceArray,
    device_of,
    is_packed,
    is_used_in_place,
    put,
)
from aotbuild.runtime.numpy.trees import NumpyTrees


@dataclass(frozen=True)
class Place:
    """Where a tree goes: a platform, and its device, which is made when it is asked for."""

    platform: str
    device: Callable[[], Any]


def placed(
    tree: Any, trees: NumpyTrees, place: Place, aval_of: Callable[[Any], Aval], remedy: Any
) -> Any:
    """Return a tree whose arrays calls in a place take without a copy.

    On a host they are numpy arrays; those that are so already are in it as they are. AotbuildError
    for a leaf that no call takes.
    """
    leaves, treedef = trees.flatten(tree)
    made = []
    for index, given in enumerate(leaves):
        leaf = _in_native_order(given)
        try:
            made.append(_placed(leaf, aval_of(leaf), place))
        except NotAnArray as err:
            path = "".join(map(str, trees.paths(tree)[index])) or "the tree"
            expected = "an array, a number or a bool"
            msg = f"place(…): {path}\n  expected {expected}\n  found    {err}\n{remedy(leaf)}"
            raise AotbuildError(msg) from err
    return treedef.unflatten(made)


def _in_native_order(leaf: Any) -> Any:
    if isinstance(leaf, np.ndarray) and not leaf.dtype.isnative:
        return leaf.astype(leaf.dtype.newbyteorder("="))
    return leaf


def _placed(leaf: Any, aval: Aval, place: Place) -> Any:
    if isinstance(leaf, DeviceArray):
        device = place.device()
        return leaf if device_of(leaf) == device else put(np.asarray(leaf), device)
    if not isinstance(leaf, np.ndarray):
        return leaf
    dtype = np.dtype(aval.dtype)
    if place.platform == HOST and not is_packed(dtype):
        return _as_called(leaf, dtype)
    return put(np.asarray(leaf, dtype), place.device())


def _as_called(array: Any, dtype: Any) -> Any:
    """Return an array as XLA:CPU takes it where it is, itself if possible."""
    if is_used_in_place(array, dtype):
        return array
    copy = aligned(array.size * dtype.itemsize).view(dtype).reshape(array.shape)
    copy[...] = array
    return copy
