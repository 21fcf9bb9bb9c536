"""One call under `nnx.jit` while it is traced: which Variables it changes, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from aotbuild.errors import TraceRefused
from aotbuild.spec.tree import Marker
from aotbuild.spec.wrap import NnxJit

_REMEDY = (
    "Do that once, before the function is called: make all Variables in __init__, choose the mode "
    "with .train(), .eval() or nnx.view, and write results into Variables (v[...] = x)."
)
Path = tuple[int, ...]


@dataclass(frozen=True)
class NnxCall:
    """A function of values with markers: what jit traces.

    It returns the result, the new values of Variables by their positions, and whether the result
    holds objects of the caller, which are markers then. `names` are those of the values. If these
    have no objects, it returns the result only.
    """

    function: str
    wrap: NnxJit
    call: Callable[[tuple[Any, ...]], Any]
    names: Sequence[str]
    donated: Sequence[str]

    def __call__(self, *marked: Any) -> Any:
        """Call the function; TraceRefused if it changes more than the values of Variables."""
        values = self.wrap.restore(marked)
        objects = dict(_objects(values))
        variables, moment = dict(self._variables(values)), _Moment.of(values, self.names)
        result = self.call(values)
        problem = moment.difference()
        if problem:
            msg = f"{self.function} changes an argument: {problem}\n{_REMEDY}"
            raise TraceRefused(msg)
        updates = {
            position: variable.get_raw_value()
            for position, (variable, raw, owner) in variables.items()
            if owner in self.donated or not _is_same(raw, variable.get_raw_value())
        }
        marked_result, refers = self._marked(result, objects)
        return (marked_result, updates, Marker("static", refers)) if objects else marked_result

    def _variables(self, values: tuple[Any, ...]) -> Iterator[tuple[int, tuple[Any, Any, str]]]:
        """Yield (position, (Variable, its value, name of its argument)), each Variable once."""
        position, seen = 0, set[int]()
        for name, value in zip(self.names, values, strict=True):
            for unit in self.wrap.flatten(value, self.wrap.is_variable)[0]:
                if self.wrap.is_variable(unit) and id(unit) not in seen:
                    seen.add(id(unit))
                    yield position, (unit, unit.get_raw_value(), name)
                position += 1

    def _marked(self, result: Any, objects: dict[Path, Any]) -> tuple[Any, bool]:
        """Return a result with markers for the caller's objects, and whether there are any."""
        # Reversed, so that the first path of an object that occurs twice counts.
        paths = {id(found): path for path, found in reversed(objects.items())}
        units, treedef = jax.tree.flatten(
            result, is_leaf=lambda x: id(x) in paths or self.wrap.is_variable(x)
        )
        marked = [Marker("argument", list(paths[id(x)])) if id(x) in paths else x for x in units]
        ids = [id(unit) for unit in marked if self.wrap.is_variable(unit)]
        if len(set(ids)) < len(ids):
            msg = (
                f"{self.function} returns a new Variable at two places; results keep no sharing\n"
                "Return it once, or make it outside of the function."
            )
            raise TraceRefused(msg)
        has_markers = any(isinstance(x, Marker) for x in marked)
        return jax.tree.unflatten(treedef, marked), has_markers


def _objects(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield flax's objects in a tree, with the child indices that lead to them."""
    if is_object(value):
        yield path, value
    children = jax.tree.leaves(value, is_leaf=lambda x: x is not value)
    for index, child in enumerate(children):
        if child is not value:
            yield from _objects(child, (*path, index))


def is_object(value: Any) -> bool:
    """Return whether a value is an object of flax: a Variable, or what holds them as attributes."""
    return is_variable(value) or is_module(value)


def is_module(value: Any) -> bool:
    """Return whether a value is a module of flax, or an optimizer, metric or the like."""
    from flax import nnx

    return isinstance(value, nnx.Pytree)


def _is_same(old: Any, new: Any) -> bool:
    (old, old_tree), (new, new_tree) = jax.tree.flatten(old), jax.tree.flatten(new)
    return bool(old_tree == new_tree) and all(a is b for a, b in zip(old, new, strict=True))


# --- what may not change ------------------------------------------------------------------------


@dataclass(frozen=True)
class _Moment:
    """flax's objects in the arguments, by their places in words, and their state at one moment.

    `units` are their Variables and other arrays by place, `trees` all static data of the objects,
    `metadata` that of the Variables, with the trees of their values.
    """

    objects: dict[str, Any]
    units: dict[str, Any]
    trees: Any
    metadata: dict[str, Any]

    @classmethod
    def of(cls, values: tuple[Any, ...], names: Sequence[str]) -> _Moment:
        """Return the moment of all objects in some values."""
        pairs = jax.tree_util.tree_flatten_with_path(values, is_leaf=is_object)[0]
        found = {
            f"{names[first.idx]}{jax.tree_util.keystr(tuple(rest))}": value
            for (first, *rest), value in pairs
            if is_object(value)
        }
        return cls._now(found)

    @classmethod
    def _now(cls, objects: dict[str, Any]) -> _Moment:
        units: dict[str, Any] = {}
        for place, value in objects.items():
            pairs = jax.tree_util.tree_flatten_with_path(value, is_leaf=is_variable)[0]
            units |= {f"{place}{jax.tree_util.keystr(path)}": unit for path, unit in pairs}
        trees = jax.tree.structure([*objects.values()], is_leaf=is_variable)
        metadata = {place: jax.tree.structure(unit) for place, unit in units.items()}
        return cls(objects, units, trees, metadata)

    def difference(self) -> str | None:
        """Return what is different now, other than values of Variables; None for nothing."""
        now = self._now(self.objects)
        for place in now.units.keys() - self.units.keys():
            return f"it makes {place}"
        for place in self.units.keys() - now.units.keys():
            return f"it removes {place}"
        if now.trees != self.trees:
            return f"it changes static data of {_first_difference(self.trees, now.trees)}"
        for place, unit in self.units.items():
            if now.units[place] is not unit:
                what = "another Variable" if is_variable(unit) else "an array, not a Variable,"
                return f"it puts {what} at {place}"
            if now.metadata[place] != self.metadata[place]:
                return f"it changes the metadata of {place}, or the tree of its value"
        return None


def is_variable(value: Any) -> bool:
    """Return whether a value is a Variable of flax."""
    from flax import nnx

    return isinstance(value, nnx.Variable)


def _first_difference(old: Any, new: Any) -> str:
    """Return the first node whose static data differs, and the attributes, if flax names them."""
    for before, after in zip(old.children(), new.children(), strict=False):
        if before != after:
            return _first_difference(before, after)
    kind, _ = old.node_data()
    # (names of children, names of static attributes, their values)
    attributes, others = (_static_attributes(tree.node_data()[1]) for tree in (old, new))
    names = [n for n in attributes if n not in others or attributes[n] != others[n]]
    listed = f" ({', '.join(map(str, names))})" if names else ""
    return f"a {kind.__module__}.{kind.__qualname__}{listed}"


def _static_attributes(data: Any) -> dict[Any, Any]:
    match data:
        case (_, tuple(names), tuple(values)):
            return dict(zip(names, values, strict=False))
    return {}
