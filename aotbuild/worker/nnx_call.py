"""One call under `nnx.jit` while it is traced: what it changes in its arguments, and returns."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import jax

from aotbuild.errors import TraceRefused
from aotbuild.format.identity import is_decodable
from aotbuild.format.tree import Marker, TreeRefused, describe
from aotbuild.format.wrap import NnxJit, nodes
from aotbuild.worker.leaves import same_structure
from aotbuild.worker.user_errors import shorten

_REMEDY = "Do that outside of the function, before or after the call."
_ONLY_VALUES = (
    "nnx.jit drops that with graph=False or graph_updates=False, which keep values of Variables "
    f"only. Leave that option out. {_REMEDY}"
)
_ONCE = "Use it at one place, or make it outside of the function."
_NOT_STATIC = "Put it into a Variable, or assign nnx.data(value)."
Path = tuple[int, ...]
# Names of attributes that are gone, new data and new static values by name.
_Change = tuple[tuple[str, ...], dict[str, Any], dict[str, Any]]


@dataclass(frozen=True)
class NnxCall:
    """A function of values with markers: what jit traces.

    It returns outputs as `format.wrap` has them. `names` are those of the values. If these
    have no objects, it returns the result only. `only_values` is whether the wrapper keeps values
    of Variables only.
    """

    function: str
    wrap: NnxJit
    call: Callable[[tuple[Any, ...]], Any]
    names: Sequence[str]
    donated: Sequence[str]
    only_values: bool = False

    def __call__(self, *marked: Any) -> Any:
        """Call the function; TraceRefused if it changes what cannot be written back."""
        values = self.wrap.restore(marked)
        objects = {path: node for path, node in nodes(self.wrap, values) if is_object(node)}
        before = {path: _State.of(found) for path, found in objects.items()}
        variables = dict(self._variables(values))
        result = self.call(values)
        found = ((path, self._change(values, path, state)) for path, state in before.items())
        changes = {path: change for path, change in found if change}
        updates = {
            position: variable.get_raw_value()
            for position, (variable, raw, owner) in variables.items()
            if owner in self.donated or not _is_same(raw, variable.get_raw_value())
        }
        bodies = [data for _, data, _ in changes.values()]
        (result, bodies), refers = self._marked((result, bodies), objects)
        if not objects:
            if refers:
                msg = f"{self.function} returns a new Variable at two places\n{_ONCE}"
                raise TraceRefused(msg)
            return result
        outputs = (result, updates, Marker("static", refers))
        forms = [
            [Marker("argument", list(path)), Marker("static", removed), body, static]
            for body, (path, (removed, _, static)) in zip(bodies, changes.items(), strict=True)
        ]
        return (*outputs, forms) if forms else outputs

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

    def _change(self, values: tuple[Any, ...], path: Path, before: _State) -> _Change | None:
        """Return what a call changed in an object's attributes, or None.

        `path` leads to the object in the arguments as they were.
        """
        now = _State.of(before.found)
        removed = tuple(name for name in before.attributes if name not in now.attributes)
        changed = {
            name: found
            for name, found in now.attributes.items()
            if name not in before.attributes or not found.is_same(before.attributes[name])
        }
        kind = _name(before.found)
        if not _is_equal(now.metadata, before.metadata):
            self._refuse(values, path, f"it changes the metadata of a {kind}", _REMEDY)
        if not removed and not changed:
            return None
        if self.only_values:
            names = ", ".join([*removed, *changed])
            self._refuse(values, path, f"it changes attributes of a {kind} ({names})", _ONLY_VALUES)
        for name, found in changed.items():
            if isinstance(found.value, jax.core.Tracer) and not found.is_data:
                what = f"it makes {name} of a {kind} a static attribute, but it is a traced array"
                self._refuse(values, path, what, _NOT_STATIC)
            if not found.is_data and not _can_be_written(found.value):
                what = f"it sets {name} of a {kind} to {shorten(repr(found.value))}, which means"
                self._refuse(values, path, f"{what} nothing in another process", _REMEDY)
        data = {name: found.value for name, found in changed.items() if found.is_data}
        static = {name: found.value for name, found in changed.items() if not found.is_data}
        return removed, data, {name: Marker("static", value) for name, value in static.items()}

    def _refuse(self, values: tuple[Any, ...], path: Path, what: str, remedy: str) -> NoReturn:
        (first, *rest) = path
        place, value = self.names[first], values[first]
        for index in rest:
            below = jax.tree_util.tree_flatten_with_path(
                value, is_leaf=lambda x, v=value: x is not v
            )
            keys, value = below[0][index]
            place += jax.tree_util.keystr(keys)
        msg = f"{self.function} changes {place}: {what}\n{remedy}"
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


@dataclass(frozen=True)
class _Attribute:
    """An attribute; `parts` are the objects and arrays in it, and the tree around them."""

    value: Any
    is_data: bool
    parts: Any

    @classmethod
    def of(cls, value: Any, *, is_data: bool) -> _Attribute:
        """Return an attribute as it is now: containers in it may change in place."""
        return cls(
            value, is_data, jax.tree.flatten(value, is_leaf=is_object) if is_data else ((), ())
        )

    def is_same(self, other: _Attribute) -> bool:
        """Return whether nothing changed since the other one was made."""
        if self.is_data != other.is_data:
            return False
        if not self.is_data:
            return _is_equal(self.value, other.value)
        (parts, tree), (others, other_tree) = self.parts, other.parts
        return same_structure(tree, other_tree) and all(map(operator.is_, parts, others))


@dataclass(frozen=True)
class _State:
    """An object, its attributes at one moment, and its metadata if it is a Variable."""

    found: Any
    attributes: dict[str, _Attribute]
    metadata: Any = None

    @classmethod
    def of(cls, found: Any) -> _State:
        """Return the state of an object."""
        values, treedef = jax.tree.flatten(found, is_leaf=lambda x: x is not found)
        _, aux = treedef.node_data()
        if is_variable(found):
            return cls(found, {}, aux)
        names, static, static_values = aux
        pairs = zip(names, values, strict=True), zip(static, static_values, strict=True)
        attributes = {
            str(name): _Attribute.of(value, is_data=is_data)
            for is_data, group in zip((True, False), pairs, strict=True)
            for name, value in group
            # Its own: which attributes are data, and which trace it was made in.
            if not str(name).startswith("_pytree__")
        }
        return cls(found, attributes)


def _is_same(old: Any, new: Any) -> bool:
    (old, old_tree), (new, new_tree) = jax.tree.flatten(old), jax.tree.flatten(new)
    return bool(old_tree == new_tree) and all(a is b for a, b in zip(old, new, strict=True))


def _is_equal(one: Any, other: Any) -> bool:
    """Return whether static data is equal, also where comparing it raises."""
    try:
        return one is other or (type(one) is type(other) and bool(one == other))
    except Exception:  # noqa: BLE001 (such as numpy's, about the truth of an array)
        return False


def _can_be_written(value: Any) -> bool:
    """Return whether another process can make a static value from the index."""
    try:
        return is_decodable(describe(jax.tree.structure(Marker("static", value)))[1])
    except TreeRefused:
        return False


def _name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"
