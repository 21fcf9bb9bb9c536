"""Arrays that calls take without a copy: what `Library.place` and `Kernel.keeping` return."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from aotbuild.errors import AotbuildError
from aotbuild.format.aval import Aval, NotAnArray
from aotbuild.format.target import HOST
from aotbuild.runtime.checked_blobs import aligned
from aotbuild.runtime.numpy.arrays import DeviceArray, device_of, is_packed, is_used_in_place, put

if TYPE_CHECKING:
    from aotbuild.runtime.trees import Leaves, Trees


def placed(tree: Any, backend: Leaves, platform: str, device: Callable[[], Any]) -> Any:
    """Return a tree whose arrays calls on a platform take without a copy.

    `device` makes the device when an array needs it. On a host they are numpy arrays; those that
    are so already are in it as they are. AotbuildError for a leaf that no call takes.
    """
    leaves, treedef = backend.trees.flatten(tree)
    made = []
    for index, given in enumerate(leaves):
        leaf = _in_native_order(given)
        try:
            made.append(_placed(leaf, backend.aval_of(leaf), platform, device))
        except NotAnArray as err:
            path = "".join(map(str, backend.trees.paths(tree)[index])) or "the tree"
            expected = "an array, a number or a bool"
            msg = (
                f"place(…): {path}\n  expected {expected}\n  found    {err}\n{backend.remedy(leaf)}"
            )
            raise AotbuildError(msg) from err
    return treedef.unflatten(made)


def _in_native_order(leaf: Any) -> Any:
    if isinstance(leaf, np.ndarray) and not leaf.dtype.isnative:
        return leaf.astype(leaf.dtype.newbyteorder("="))
    return leaf


def _placed(leaf: Any, aval: Aval, platform: str, device: Callable[[], Any]) -> Any:
    if isinstance(leaf, DeviceArray):
        here = device()
        return leaf if device_of(leaf) == here else put(np.asarray(leaf), here)
    if not isinstance(leaf, np.ndarray):
        return leaf
    dtype = np.dtype(aval.dtype)
    if platform == HOST and not is_packed(dtype):
        return _as_called(leaf, dtype)
    return put(np.asarray(leaf, dtype), device())


def _as_called(array: Any, dtype: Any) -> Any:
    """Return an array as XLA:CPU takes it where it is, itself if possible."""
    if is_used_in_place(array, dtype):
        return array
    copy = aligned(array.size * dtype.itemsize).view(dtype).reshape(array.shape)
    copy[...] = array
    return copy


# --- results ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StayingResults:
    """Results that stay on the device: keys, fields or indices of the result, all if none.

    `function` is the name of the function, for errors.
    """

    function: str
    names: tuple[int | str, ...]

    def leaves(self, out_tree: Any, trees: Trees) -> frozenset[int]:
        """Return the indices of the leaves that stay; AotbuildError for an unknown name."""
        count = out_tree.num_leaves
        if not self.names:
            return frozenset(range(count))
        paths = trees.paths(out_tree.unflatten(range(count)))
        tops = [_names_of(path[0], out_tree) if path else () for path in paths]
        known = list(dict.fromkeys(name for names in tops for name in names))
        unknown = [name for name in self.names if name not in known]
        if unknown:
            raise self._unknown(unknown, known)
        return frozenset(i for i, names in enumerate(tops) if {*names} & {*self.names})

    def _unknown(self, unknown: list[int | str], known: list[int | str]) -> AotbuildError:
        asked = ", ".join(map(repr, self.names))
        expected = f"some of {', '.join(map(repr, known))}" if known else "no names"
        return AotbuildError(
            f"{self.function}: keeping({asked})\n"
            f"  expected {expected}\n"
            f"  found    {', '.join(map(repr, unknown))}\n"
            "Name results by their key, field or index; keeping() keeps all of them."
        )


def _names_of(key: Any, out_tree: Any) -> tuple[int | str, ...]:
    """Return the names of a top-level result; a field of a namedtuple has its index, too."""
    attributes = ("key", "idx", "name")
    name: Any = next(getattr(key, each) for each in attributes if hasattr(key, each))
    node_data = out_tree.node_data()
    fields = getattr(node_data[0], "_fields", ()) if node_data else ()
    return (name, fields.index(name)) if name in fields else (name,)
