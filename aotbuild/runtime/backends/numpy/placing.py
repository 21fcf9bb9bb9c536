"""Where calls take arrays without a copy: which arrays are copied, and trees that are not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from aotbuild.errors import AotbuildError, InvalidArgument
from aotbuild.platforms.base import platform_of
from aotbuild.runtime.backends.numpy.arrays import DeviceArray, device_of, is_packed, put
from aotbuild.runtime.backends.numpy.trees import NumpyTrees
from aotbuild.runtime.binding import Call
from aotbuild.runtime.buffers import aligned, is_aligned
from aotbuild.spec.aval import Aval, NotAnArray
from aotbuild.spec.record import Record
from aotbuild.spec.target import HOST

# Smaller arguments are not looked at: copying one takes no longer than asking where it begins.
_SMALLEST_COUNTED = 64 * 1024


def placed(
    tree: Any, trees: NumpyTrees, device: Any, aval_of: Callable[[Any], Aval], remedy: Any
) -> Any:
    """Return a tree whose arrays calls on a device take without a copy.

    On a host they are numpy arrays; those that are so already are in it as they are. AotbuildError
    for a leaf that no call takes.
    """
    leaves, treedef = trees.flatten(tree)
    made = []
    for index, leaf in enumerate(leaves):
        try:
            made.append(_placed(leaf, aval_of(leaf), device))
        except NotAnArray as err:
            path = "".join(map(str, trees.paths(tree)[index])) or "the tree"
            expected = "an array, a number or a bool"
            msg = f"place(…): {path}\n  expected {expected}\n  found    {err}\n{remedy(leaf)}"
            raise AotbuildError(msg) from err
    return treedef.unflatten(made)


def _placed(leaf: Any, aval: Aval, device: Any) -> Any:
    if isinstance(leaf, DeviceArray):
        return leaf if device_of(leaf) == device else put(np.asarray(leaf), device)
    if not isinstance(leaf, np.ndarray):
        return leaf
    dtype = np.dtype(aval.dtype)
    if platform_of(device) == HOST and not is_packed(dtype):
        return _as_called(leaf, dtype)
    return put(np.asarray(leaf, dtype), device)


def _as_called(array: Any, dtype: Any) -> Any:
    """Return an array as XLA:CPU takes it where it is, itself if possible."""
    if _is_as_called(array, dtype):
        return array
    copy = aligned(array.size * dtype.itemsize).view(dtype).reshape(array.shape)
    copy[...] = array
    return copy


def _is_as_called(array: Any, dtype: Any) -> bool:
    return bool(array.dtype == dtype and array.flags.c_contiguous and is_aligned(array))


def copied_leaves(call: Call, record: Record, device: Any) -> Iterator[tuple[int, int]]:
    """Yield (index, bytes) of each large leaf of a call that it copies to use it."""
    on_host, donated = platform_of(device) == HOST, record.calling.donated
    for index, leaf in enumerate(call.leaves):
        if not isinstance(leaf, np.ndarray) or leaf.nbytes < _SMALLEST_COUNTED:
            continue
        dtype = np.dtype(record.signature.leaves[index].dtype)
        # XLA writes into what is donated, but not into memory of numpy.
        stays = on_host and index not in donated and not is_packed(dtype)
        if not stays or not _is_as_called(leaf, dtype):
            yield index, leaf.nbytes


def first_device(leaves: Sequence[Any]) -> Any:
    """Return the device of the first leaf that is on one; None if there is none."""
    return next((device_of(leaf) for leaf in leaves if isinstance(leaf, DeviceArray)), None)


def check_devices(call: Call, device: Any, paths: Callable[[], Sequence[str]]) -> None:
    """Raise InvalidArgument if an array is deleted, or on another device than the call."""
    for index, leaf in enumerate(call.leaves):
        if not isinstance(leaf, DeviceArray):
            continue
        if leaf.is_deleted():
            found = "an array that was donated to an earlier call"
            raise _refusal(call, paths()[index], "an array", found, "Use that call's result.")
        if device_of(leaf) != device:
            expected = f"an array on {platform_of(device)}:{device.local_hardware_id}"
            remedy = "Put all arguments on one device: library.on('cpu:1').place(tree)."
            raise _refusal(call, paths()[index], expected, repr(leaf), remedy)


def _refusal(call: Call, path: str, expected: str, found: str, remedy: str) -> InvalidArgument:
    return InvalidArgument(call.bound.function.name, path, expected, found, remedy)
