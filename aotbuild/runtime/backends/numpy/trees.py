"""Trees of the numpy backend: standard containers and namedtuples. Results become numpy arrays.

Each leaf of the output tree is wrapped in a node with one child. So the C++ dispatch turns jaxlib's
array into a numpy array while it builds the tree. No Python runs for dtypes that numpy knows, and
no call needs a wrapper.
"""

from __future__ import annotations

import math
from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from aotbuild.platforms.base import client_part, platform_of
from aotbuild.runtime.backends.numpy import private
from aotbuild.spec.aval import Aval
from aotbuild.spec.target import HOST

# A platform, and the number of its device in this process.
_Where: TypeAlias = tuple[str, int]

# How many elements XLA packs into one byte, for dtypes that the buffer protocol lacks.
_PER_BYTE = {"int4": 2, "uint4": 2, "float4_e2m1fn": 2, "int2": 4, "uint2": 4}


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
    """The node around any other array; its data is (shape, dtype, elements per byte, where).

    Such an array has a dtype of ml_dtypes, which the buffer protocol lacks, or is not on the host.
    """


class NumpyTrees:
    """Pytrees without jax: types that are registered with jax are leaves here."""

    nodes: frozenset[str] | None = frozenset({"collections:OrderedDict", "collections:defaultdict"})

    def __init__(self) -> None:
        self.registry = registry = private.make_registry()
        for kind, flatten, unflatten in (
            (OrderedDict, _flatten_ordered, _unflatten_ordered),
            (defaultdict, _flatten_default, _unflatten_default),
        ):
            with_keys = private.with_keys(flatten)
            registry.register_node(kind, flatten, unflatten, with_keys)
        registry.register_node(_Other, _never, _read)

    def flatten(self, tree: Any) -> tuple[list[Any], Any]:
        """Return the leaves of a tree and its treedef."""
        leaves, treedef = self.registry.flatten(tree)
        return leaves, treedef

    def paths(self, tree: Any) -> list[tuple[Any, ...]]:
        """Return the key path of each leaf."""
        pairs, _ = self.registry.flatten_with_path(tree)
        return [path for path, _ in pairs]

    def make_treedef(self, node_data: tuple[type, Any] | None, children: Sequence[Any]) -> Any:
        """Return the treedef of a node, or of a leaf."""
        return private.make_treedef(self.registry, node_data, children)

    def with_arrays(self, treedef: Any, avals: Sequence[Aval], device: Any) -> Any:
        """Return a treedef that turns jaxlib's arrays into numpy arrays as it unflattens."""
        platform = platform_of(device)
        where = None if platform == HOST else (platform, device.local_hardware_id)
        return self._wrap(treedef, iter([_node_of(aval, where) for aval in avals]))

    def _wrap(self, treedef: Any, nodes: Iterator[tuple[type, Any]]) -> Any:
        data = treedef.node_data()
        if data is not None:
            children = [self._wrap(child, nodes) for child in treedef.children()]
            return self.make_treedef(data, children)
        return self.make_treedef(next(nodes), [treedef]) if treedef.num_leaves else treedef


def _node_of(aval: Aval, where: _Where | None) -> tuple[type, Any]:
    dtype = np.dtype(aval.dtype)
    if where is None and dtype.isbuiltin == 1:
        return _Plain, None
    return _Other, (aval.shape, dtype, _PER_BYTE.get(aval.dtype, 1), where)


class _Memory:
    """Memory that numpy can view; the view keeps the array alive."""

    def __init__(self, array: Any, count: int) -> None:
        self.owner = array
        self.__array_interface__ = {
            "data": (array.unsafe_buffer_pointer(), True),
            "shape": (count,),
            "typestr": "|u1",
            "version": 3,
        }


def _read(data: tuple[Any, Any, int, _Where | None], children: tuple[Any, ...]) -> Any:
    shape, dtype, per_byte, where = data
    (array,), count = children, math.prod(shape)
    array.block_until_ready()
    size = -(-count * dtype.itemsize // per_byte)
    if where is None:
        raw = np.asarray(_Memory(array, size))
    else:
        platform, ordinal = where
        raw = client_part(platform).copy(array.unsafe_buffer_pointer(), size, ordinal)
    if per_byte > 1:
        raw = _unpacked(raw, per_byte, count)
    raw.flags.writeable = False
    return raw.view(dtype).reshape(shape)


def _unpacked(raw: Any, per_byte: int, count: int) -> Any:
    """Return packed elements as one byte each; the lowest bits of a byte are its first element."""
    bits = 8 // per_byte
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return ((raw[:, None] >> shifts) & ((1 << bits) - 1)).reshape(-1)[:count]


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
