"""Wraps: what flax's `nnx.jit` and equinox's `filter_jit` mean by the arguments of a call.

A wrap splits the values of a call into a key and arrays. The key decides what was traced: the trees
with all static data, and what else is not an array. Both sides use it, each with jax's functions;
`join` returns trees that only hold arrays, and a `Marker` in the place of everything else.

The outputs of an executable under `nnx.jit` are a tuple of

- the result, with a marker for each object of the caller and for each new Variable that occurs
  again;
- the new values of the caller's Variables, by position among the units;
- whether there are such markers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from aotbuild.format.tree import Marker

NNX_JIT, FILTER_JIT = "nnx.jit", "eqx.filter_jit"

# jax.tree_util.tree_flatten: (tree, is_leaf or None) to (leaves, treedef).
Flatten = Callable[..., tuple[list[Any], Any]]
Key = tuple[Any, ...]


@dataclass(frozen=True)
class NnxJit:
    """`nnx.jit`: a Variable that is in the arguments twice is one Variable."""

    flatten: Flatten
    is_variable: Callable[[Any], bool]

    def split(self, values: tuple[Any, ...], statics: str) -> tuple[Key, list[Any], list[Any]]:
        """Return (key, arrays, units); a unit is a Variable, or an array outside of one."""
        units, outer = self.flatten(values, self.is_variable)
        shared: tuple[tuple[int, int], ...] = ()
        if len(set(map(id, units))) < len(units):
            shared = tuple(self._shared(units))
        again = {position for position, _ in shared}
        kept = [u for i, u in enumerate(units) if i not in again] if shared else units
        arrays, inner = self.flatten(kept)
        return (statics, outer, inner, shared), arrays, units

    def join(self, key: Key, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """Return the values, with a marker for each further occurrence of a Variable."""
        _, outer, inner, shared = key
        units = inner.unflatten(arrays)
        for position, first in shared:
            units.insert(position, Marker("shared", first))
        return _unflatten(outer, units)

    def restore(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return values in which each marker is the Variable that it stands for."""
        units, outer = self.flatten(values, lambda x: is_marker(x) or self.is_variable(x))
        return _unflatten(outer, [units[u.value] if is_marker(u) else u for u in units])

    def is_static(self, _: Any) -> bool:
        """Return False: a leaf has to be an array, as under `jax.jit`."""
        return False

    def _shared(self, units: Sequence[Any]) -> Iterator[tuple[int, int]]:
        """Yield (position, first position) of each further occurrence."""
        first: dict[int, int] = {}
        for position, unit in enumerate(units):
            if self.is_variable(unit) and first.setdefault(id(unit), position) < position:
                yield position, first[id(unit)]


@dataclass(frozen=True)
class FilterJit:
    """`eqx.filter_jit`: a leaf that is no array is static."""

    flatten: Flatten
    is_array: Callable[[Any], bool]

    def split(self, values: tuple[Any, ...], statics: str) -> tuple[Key, list[Any], list[Any]]:
        """Return (key, arrays, units); the units are the arrays."""
        leaves, treedef = self.flatten(values)
        is_array = self.is_array
        others = tuple((i, *_typed(x)) for i, x in enumerate(leaves) if not is_array(x))
        arrays = [x for x in leaves if is_array(x)] if others else leaves
        return (statics, treedef, others), arrays, arrays

    def join(self, key: Key, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """Return the values, with a marker for each static leaf."""
        _, treedef, others = key
        leaves = list(arrays)
        for position, kind, value in others:
            leaves.insert(position, Marker("static", float(value) if kind is float else value))
        values: tuple[Any, ...] = treedef.unflatten(leaves)
        return values

    def restore(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return values in which each marker is the static leaf that it stands for."""
        leaves, treedef = self.flatten(values, is_marker)
        return _unflatten(treedef, [x.value if is_marker(x) else x for x in leaves])

    def is_static(self, leaf: Any) -> bool:
        """Return whether a leaf is no array."""
        return not self.is_array(leaf)


# The meaning of one wrapper.
Wrap: TypeAlias = NnxJit | FilterJit


def mark(wrap: Wrap, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return values with markers for whatever is no array."""
    key, arrays, _ = wrap.split(values, "")
    return wrap.join(key, arrays)


def is_marker(value: Any) -> bool:
    """Return whether a value is a marker."""
    return isinstance(value, Marker)


def _unflatten(treedef: Any, leaves: Sequence[Any]) -> tuple[Any, ...]:
    values: tuple[Any, ...] = treedef.unflatten(leaves)
    return values


def _typed(value: Any) -> tuple[type, Any]:
    """Return a static leaf so that `==` tells 1 from True and 0.0 from -0.0, and nan equals nan."""
    kind = type(value)
    return kind, repr(value) if kind is float else value


# --- what nnx.jit writes back ---------------------------------------------------------------------


@dataclass(frozen=True)
class WriteBack:
    """Writes the outputs of a call into its objects."""

    wrap: NnxJit

    def __call__(self, outputs: Any, units: Sequence[Any], values: Sequence[Any]) -> Any:
        """Write what changed into the objects in `values`, and return the function's result.

        `units` are the Variables of the call, and the arrays outside of them.
        """
        result, updates, refers = outputs
        for position, value in updates.items():
            units[position].set_raw_value(value)
        return self._resolved(result, values) if refers else result

    def _resolved(self, tree: Any, values: Sequence[Any]) -> Any:
        """Return a tree with objects in the place of their markers."""
        wrap = self.wrap
        units, treedef = wrap.flatten(tree, lambda x: is_marker(x) or wrap.is_variable(x))
        for index, unit in enumerate(units):
            if is_marker(unit):
                is_new = unit.form == "shared"
                units[index] = units[unit.value] if is_new else self._child(values, unit.value)
        return treedef.unflatten(units)

    def _child(self, value: Any, path: Sequence[int]) -> Any:
        for index in path:
            value = children(self.wrap.flatten, value)[index]
        return value


def nodes(wrap: NnxJit, value: Any, path: tuple[int, ...] = ()) -> Iterator[tuple[Any, Any]]:
    """Yield (child indices, node) of all nodes and leaves in a tree; Variables are leaves."""
    yield path, value
    if not wrap.is_variable(value):
        for index, child in enumerate(children(wrap.flatten, value)):
            if child is not value:
                yield from nodes(wrap, child, (*path, index))


def children(flatten: Flatten, value: Any) -> list[Any]:
    """Return the children of a node; a leaf has itself."""
    return flatten(value, lambda x: x is not value)[0]
