"""What a call under `nnx.jit` gives back: its result, and what it changes in the caller's objects.

The outputs of an executable are a tuple of

- the result, with a marker for each object of the caller and for each new Variable that occurs
  again;
- the new values of the caller's Variables, by position among the units of `format.wrap`;
- whether there are such markers;
- only where the function changes attributes: a list with `[object, removed, data, static]` for
  each object of the caller: the names that it loses, and what it gets by name, which is trees like
  the result, and static values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from aotbuild.errors import AotbuildError
from aotbuild.format.wrap import Flatten, NnxJit, is_marker


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
