"""Wraps: what flax's `nnx.jit` and equinox's `filter_jit` mean by the arguments of a call.

A wrap splits the values of a call into a key and arrays. The key decides what was traced: the trees
with all static data, and what else is not an array. Both sides use it, each with jax's functions;
`join` returns trees that only hold arrays, and a `Marker` in the place of everything else.

The outputs of an executable under `nnx.jit` are a tuple of

- the result, with a marker for each object of the caller and for each new Variable that occurs
  again;
- the new values of the caller's Variables, by position among the units;
- whether there are such markers;
- only where the function changes attributes: a list with `[object, removed, data, static]` for
  each object of the caller: the names that it loses, and what it gets by name, which is trees like
  the result, and static values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from aotbuild.errors import AotbuildError
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
    """Writes the outputs of a call into its objects.

    `data` and `static` are flax's functions of these names: they say what an attribute is.
    """

    wrap: NnxJit
    data: Callable[[Any], Any]
    static: Callable[[Any], Any]

    def __call__(self, outputs: Any, units: Sequence[Any], values: Sequence[Any]) -> Any:
        """Write what changed into the objects in `values`, and return the function's result.

        `units` are the Variables of the call, and the arrays outside of them.
        """
        result, updates, refers, *changes = outputs
        if changes:
            return self._with_changes(outputs, units, values)
        for position, value in updates.items():
            units[position].set_raw_value(value)
        return self._resolved(result, values) if refers else result

    def _with_changes(self, outputs: Any, units: Sequence[Any], values: Sequence[Any]) -> Any:
        result, updates, _, changes = outputs
        # All paths lead through the objects as they were.
        owners = [self._child(values, owner.value) for owner, *_ in changes]
        self._check_owners(owners, changes, values)
        result, bodies = self._resolved((result, [data for _, _, data, _ in changes]), values)
        for position, value in updates.items():
            units[position].set_raw_value(value)
        written: set[int] = set()
        for owner, (_, removed, _, static), data in zip(owners, changes, bodies, strict=True):
            if id(owner) not in written:
                written.add(id(owner))
                self._set(owner, plain(removed), data, static)
        return result

    def _set(self, owner: Any, removed: Sequence[str], data: Any, static: Any) -> None:
        for name in removed:
            delattr(owner, name)
        for name, value in data.items():
            setattr(owner, name, self.data(value))
        for name, value in static.items():
            setattr(owner, name, self.static(plain(value)))

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

    def _check_owners(self, owners: list[Any], changes: Any, values: Sequence[Any]) -> None:
        """Refuse to change an object at several places: it was an object at each when traced.

        Setting and removing the same static attributes at all of them is well.
        """
        places = Counter(id(node) for _, node in nodes(self.wrap, tuple(values)))
        for owner in owners:
            same = [c for o, c in zip(owners, changes, strict=True) if o is owner]
            static = [([*plain(r)], {n: plain(v) for n, v in s.items()}) for _, r, _, s in same]
            has_data = any(data for _, _, data, _ in same)
            is_one = places[id(owner)] == len(same) and static.count(static[0]) == len(same)
            if places[id(owner)] > 1 and (has_data or not is_one):
                msg = (
                    f"a {type(owner).__module__}.{type(owner).__qualname__} is at "
                    f"{places[id(owner)]} places in the arguments, and the function changes its "
                    "attributes\nCompiled ahead, it is an object at each place. Change the "
                    "attributes outside of the function, or set AOTBUILD_FALLBACK=jit."
                )
                raise AotbuildError(msg)


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


def plain(value: Any) -> Any:
    """Return a static value; where nothing was restored, a marker stands for it."""
    return value.value if is_marker(value) else value
