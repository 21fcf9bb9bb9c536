"""Trees of the numpy backend: standard containers and namedtuples. Results become numpy arrays.

Each leaf of the output tree is wrapped in a node with one child. So the C++ dispatch turns jaxlib's
array into a numpy array while it builds the tree. No Python runs for dtypes that numpy knows, and
no call needs a wrapper.
"""

from __future__ import annotations

import sys
from collections import OrderedDict, defaultdict
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from aotbuild.format.aval import Aval
from aotbuild.runtime.concurrency import AfterImport
from aotbuild.runtime.numpy import private
from aotbuild.runtime.numpy.arrays import DeviceArray, Where, is_plain, read, where_of


class _CallsNumpy(type):
    """Makes calling a class call numpy's own C function, with no Python in between."""

    __call__ = staticmethod(np.asarray)


class _Plain(tuple[Any], metaclass=_CallsNumpy):
    """The node around an array whose dtype numpy knows.

    C++ takes it for a namedtuple and calls the class with the child, so numpy reads the child's
    buffer. An array without a buffer becomes an array of objects; `NumpyExecutable` finds that out
    at its first call.
    """

    __slots__ = ()
    _fields = ("array",)


class _Other:
    """The node around any other array; its data is (shape, dtype, where).

    Such an array has a dtype of ml_dtypes, which the buffer protocol lacks, or is not on the host.
    """


class NumpyTrees:
    """Pytrees without jax: types that are registered with jax are leaves here."""

    nodes: frozenset[str] | None = frozenset({"collections:OrderedDict", "collections:defaultdict"})

    def __init__(self) -> None:
        self.registry = _make_registry()
        self.dispatch_registry = _dispatch_registry()
        _AFTER_MASKED.start()
        # The module is there without its types while another thread imports it.
        if hasattr(sys.modules.get("numpy.ma"), "masked"):
            _refuse_masked()

    def flatten(self, tree: Any) -> tuple[list[Any], Any]:
        """Return the leaves of a tree and its treedef."""
        leaves, treedef = self.registry.flatten(tree)
        return leaves, treedef

    def paths(self, tree: Any) -> list[tuple[Any, ...]]:
        """Return the key path of each leaf."""
        pairs, _ = self.registry.flatten_with_path(tree)
        return [path for path, _ in pairs]

    def children(self, node: Any) -> list[tuple[str, Any]]:
        """Return the children of a node, and how the step to each is written."""
        pairs, _ = self.registry.flatten_with_path(node, lambda _, child: child is not node)
        return [(str(step), child) for (step,), child in pairs]

    def make_treedef(self, node_data: tuple[type, Any] | None, children: Sequence[Any]) -> Any:
        """Return the treedef of a node, or of a leaf."""
        return private.make_treedef(self.registry, node_data, children)

    def with_arrays(
        self, treedef: Any, avals: Sequence[Aval], device: Any, staying: Collection[int] = ()
    ) -> Any:
        """Return a treedef that turns jaxlib's arrays into numpy arrays as it unflattens.

        Those at the indices `staying` become arrays that stay on the device.
        """
        where = where_of(device)
        nodes = [
            (DeviceArray, ()) if index in staying else _node_of(aval, where)
            for index, aval in enumerate(avals)
        ]
        return self._wrap(treedef, iter(nodes))

    def _wrap(self, treedef: Any, nodes: Iterator[tuple[type, Any]]) -> Any:
        data = treedef.node_data()
        if data is not None:
            children = [self._wrap(child, nodes) for child in treedef.children()]
            return self.make_treedef(data, children)
        if not treedef.num_leaves:
            return treedef
        return private.make_treedef(self.dispatch_registry, next(nodes), [treedef])


@cache
def _dispatch_registry() -> Any:
    """Return the registry by which the C++ dispatch takes arguments apart, one for the process.

    It finds jaxlib's array in a `DeviceArray`, which is a leaf for everybody else.
    """
    registry = _make_registry()
    private.register_fields(registry, DeviceArray, ["_buffer"])
    return registry


@cache
def _refuse_masked() -> None:
    """Make each call with a masked array miss, where it is refused.

    C++ takes a leaf of a subclass of `numpy.ndarray` for the array, here one without its mask. A
    masked array becomes a node, which is in no tree that the dispatch knows. Importing `numpy.ma`
    takes 8 ms, and nothing is masked before.
    """
    module = sys.modules["numpy.ma"]
    for kind in (module.MaskedArray, type(module.masked)):
        private.register_fields(_dispatch_registry(), kind, [])


_AFTER_MASKED = AfterImport("numpy.ma", _refuse_masked)


def _make_registry() -> Any:
    registry = private.make_registry()
    for kind, flatten, unflatten in (
        (OrderedDict, _flatten_ordered, _unflatten_ordered),
        (defaultdict, _flatten_default, _unflatten_default),
    ):
        registry.register_node(kind, flatten, unflatten, private.with_keys(flatten))
    registry.register_node(_Other, _never, _read)
    return registry


def _node_of(aval: Aval, where: Where) -> tuple[type, Any]:
    dtype = np.dtype(aval.dtype)
    if where is None and is_plain(dtype):
        return _Plain, None
    return _Other, (aval.shape, dtype, where)


def _read(data: tuple[Any, Any, Where], children: tuple[Any, ...]) -> Any:
    shape, dtype, where = data
    (array,) = children
    return read(array, shape, dtype, where)


def _never(value: Any) -> Any:
    msg = f"a {type(value).__name__} is in no tree"
    raise TypeError(msg)


# As jax registers them (jax._src.tree_util).


def _flatten_ordered(tree: Any) -> tuple[Any, Any]:
    return tuple(tree.values()), tuple(tree)


def _unflatten_ordered(keys: Any, values: Any) -> Any:
    return OrderedDict(zip(keys, values, strict=True))


def _flatten_default(tree: Any) -> tuple[Any, Any]:
    keys = tuple(sorted(tree))
    return tuple(tree[key] for key in keys), (tree.default_factory, keys)


def _unflatten_default(data: Any, values: Any) -> Any:
    return defaultdict(data[0], zip(data[1], values, strict=True))
