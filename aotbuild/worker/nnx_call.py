"""One call under `nnx.jit` while it is traced: what it changes in its arguments, and returns."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from aotbuild.errors import TraceRefused
from aotbuild.format.tree import Marker
from aotbuild.format.wrap import NnxJit, nodes
from aotbuild.worker.leaves import same_structure

_REMEDY = (
    "A compiled call writes back the values of Variables and nothing else. Put what changes into a "
    "Variable, or change it outside of the function, before or after the call."
)
_ONCE = "Use it at one place, or make it outside of the function."
Path = tuple[int, ...]


@dataclass(frozen=True)
class NnxCall:
    """A function of values with markers: what jit traces.

    It returns outputs as `format.wrap` has them. `names` are those of the values. If these
    have no objects, it returns the result only.
    """

    function: str
    wrap: NnxJit
    call: Callable[[tuple[Any, ...]], Any]
    names: Sequence[str]
    donated: Sequence[str]

    def __call__(self, *marked: Any) -> Any:
        """Call the function; TraceRefused if it changes what cannot be written back."""
        values = self.wrap.restore(marked)
        objects = {path: node for path, node in nodes(self.wrap, values) if is_object(node)}
        before = {path: _attributes(found) for path, found in objects.items()}
        variables = dict(self._variables(values))
        result = self.call(values)
        for path, found in objects.items():
            self._check_attributes(values, path, before[path], found)
        updates = {
            position: variable.get_raw_value()
            for position, (variable, raw, owner) in variables.items()
            if owner in self.donated or not _is_same(raw, variable.get_raw_value())
        }
        result, refers = self._marked(result, objects)
        if objects:
            return result, updates, Marker("static", refers)
        if refers:
            msg = f"{self.function} returns a new Variable at two places\n{_ONCE}"
            raise TraceRefused(msg)
        return result

    def _variables(self, values: tuple[Any, ...]) -> Iterator[tuple[int, tuple[Any, Any, str]]]:
        """Yield (position, (Variable, its value, name of its argument)), each Variable once."""
        position, seen = 0, set[int]()
        for name, value in zip(self.names, values, strict=True):
            for unit in self.wrap.flatten(value, self.wrap.is_variable)[0]:
                if self.wrap.is_variable(unit) and id(unit) not in seen:
                    seen.add(id(unit))
                    yield position, (unit, unit.get_raw_value(), name)
                position += 1

    def _marked(self, tree: Any, objects: dict[Path, Any]) -> tuple[Any, bool]:
        """Return a tree with markers for objects that are elsewhere, and whether it has any."""
        # Reversed, so that the first path of an object that occurs twice counts.
        paths = {id(found): path for path, found in reversed(objects.items())}
        units, treedef = jax.tree.flatten(
            tree, is_leaf=lambda x: id(x) in paths or self.wrap.is_variable(x)
        )
        marked, first = list[Any](), dict[int, int]()
        for index, unit in enumerate(units):
            if id(unit) in paths:
                marked.append(Marker("argument", list(paths[id(unit)])))
            elif self.wrap.is_variable(unit) and id(unit) in first:
                marked.append(Marker("shared", first[id(unit)]))
            else:
                first[id(unit)] = index
                marked.append(unit)
        self._check_modules(tree, paths)
        return jax.tree.unflatten(treedef, marked), any(isinstance(x, Marker) for x in marked)

    def _check_modules(self, tree: Any, paths: dict[int, Path]) -> None:
        """Refuse a new object other than a Variable at two places: it would become two."""
        seen = set[int]()

        def is_known(node: Any) -> bool:
            if id(node) in paths:
                return True
            if is_module(node) and id(node) in seen:
                msg = (
                    f"{self.function} makes a {_name(node)} and returns it, or puts it into its "
                    f"arguments, at two places; compiled ahead, it would be two objects\n{_ONCE}"
                )
                raise TraceRefused(msg)
            seen.add(id(node))
            return False

        jax.tree.flatten(tree, is_leaf=is_known)

    def _check_attributes(
        self, values: tuple[Any, ...], path: Path, before: _Attributes, found: Any
    ) -> None:
        """Refuse a change of an object's attributes, or of a Variable's metadata.

        `path` leads to the object in the arguments.
        """
        now = _attributes(found)
        changed = [
            name
            for name in dict.fromkeys((*before, *now))
            if name not in before or name not in now or not _is_same_part(before[name], now[name])
        ]
        if not changed:
            return
        (first, *rest) = path
        place, value = self.names[first], values[first]
        for index in rest:
            below = jax.tree_util.tree_flatten_with_path(
                value, is_leaf=lambda x, v=value: x is not v
            )
            keys, value = below[0][index]
            place += jax.tree_util.keystr(keys)
        what = "the metadata" if is_variable(found) else f"attributes ({', '.join(changed)})"
        msg = f"{self.function} changes {what} of {place}, a {_name(found)}\n{_REMEDY}"
        raise TraceRefused(msg)


def is_object(value: Any) -> bool:
    """Return whether a value is an object of flax: a Variable, or what holds them as attributes."""
    return is_variable(value) or is_module(value)


def is_module(value: Any) -> bool:
    """Return whether a value is a module of flax, or an optimizer, metric or the like."""
    from flax import nnx

    return isinstance(value, nnx.Pytree)


def is_variable(value: Any) -> bool:
    """Return whether a value is a Variable of flax."""
    from flax import nnx

    return isinstance(value, nnx.Variable)


# --- objects at one moment ----------------------------------------------------------------------

# By name: the objects and arrays in an attribute, and the tree around them; or static data.
_Attributes = dict[str, tuple[list[Any], Any]]


def _attributes(found: Any) -> _Attributes:
    """Return an object's attributes as they are now: containers in them may change in place."""
    values, treedef = jax.tree.flatten(found, is_leaf=lambda x: x is not found)
    _, aux = treedef.node_data()
    if is_variable(found):
        return {"metadata": ([], aux)}
    names, static_names, static = aux
    data = [jax.tree.flatten(value, is_leaf=is_object) for value in values]
    attributes = dict(
        zip((*names, *static_names), (*data, *(([], s) for s in static)), strict=True)
    )
    # Its own: which attributes are data, and which trace it was made in.
    return {str(n): part for n, part in attributes.items() if not str(n).startswith("_pytree__")}


def _is_same_part(one: tuple[list[Any], Any], other: tuple[list[Any], Any]) -> bool:
    (parts, tree), (others, other_tree) = one, other
    if len(parts) != len(others) or not all(map(operator.is_, parts, others)):
        return False
    if isinstance(tree, jax.tree_util.PyTreeDef):
        return same_structure(tree, other_tree)
    try:
        return tree is other_tree or (type(tree) is type(other_tree) and bool(tree == other_tree))
    except Exception:  # noqa: BLE001 (such as numpy's, about the truth of an array)
        return False


def _is_same(old: Any, new: Any) -> bool:
    return _is_same_part(jax.tree.flatten(old), jax.tree.flatten(new))


def _name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"
