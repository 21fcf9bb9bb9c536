"""Whether a function of a manifest has a recorded call: exactly, or by padding."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from aotbuild.format.aval import Aval
from aotbuild.format.tree import LEAF, Tree, children_of, leaf_count
from aotbuild.format.values import encode
from aotbuild.manifest import (
    ArgSpec,
    DictSpec,
    Function,
    LeafSpec,
    LikeSpec,
    ListSpec,
    NoneSpec,
    TupleSpec,
)
from aotbuild.manifest.specs import walk_specs
from aotbuild.record.dims import Row
from aotbuild.record.recording import RecordedFunction
from aotbuild.record.seen import Seen, Statics

# Pairs of an array of the manifest and a leaf of a call.
_Pairs = Iterator[tuple[LeafSpec, Aval]]


class Mismatch(Exception):
    """A call is not one of a function; the message says in what they differ."""


@dataclass(frozen=True)
class Fit:
    """A call as a function of the manifest has it.

    Attributes:
        row: The sizes of the function's dims.
        statics: The static values, encoded, in the order of the manifest's.
        likes: The names under `like:` that are taken to be what was passed.
        differs: Whether a size differs that the manifest does not call a dim.
    """

    row: Row
    statics: tuple[str, ...]
    likes: tuple[str, ...] = ()
    differs: bool = False


@dataclass(frozen=True)
class Expanded:
    """A function of a manifest, and all that it is compiled for."""

    function: Function

    @cached_property
    def arguments(self) -> dict[str, ArgSpec]:
        """The specs of all arguments by name, in order."""
        return {**self.function.positional, **self.function.kwargs}

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The names of the dims, in the order of the rows."""
        return tuple(name for name, _ in self._rows[0])

    @cached_property
    def rows(self) -> frozenset[Row]:
        """The sizes of the dims of all signatures."""
        return frozenset(tuple(size for _, size in row) for row in self._rows)

    @cached_property
    def statics(self) -> list[list[str]]:
        """The values of each static argument, encoded, in the order of the manifest."""
        values = self.function.static.values()
        return [[encoded(value) for value in each] for each in values]

    @property
    def signatures(self) -> int:
        """How many signatures it has."""
        return len(self.rows) * prod(map(len, self.statics))

    def covers(self, found: Fit) -> bool:
        """Return whether a call has an executable of its own, or one that it is padded to."""
        return self.serving(found) is not None

    def serving(self, found: Fit) -> Row | None:
        """Return the sizes whose executable a call gets: its own, or the smallest that hold it."""
        pairs = zip(found.statics, self.statics, strict=True)
        if found.differs or not all(value in values for value, values in pairs):
            return None
        if found.row in self.rows:
            return found.row
        rows = self.rows if self.function.pad else ()
        holding = [row for row in rows if self._holds(row, found.row)]
        return min(holding, key=lambda row: (self.padded_elements(row), row), default=None)

    def padded_elements(self, row: Row) -> int:
        """Return the number of elements of the arrays that have a padded dim, for some sizes."""
        sizes = dict(zip(self.order, row, strict=True))
        return sum(
            prod(sizes.get(dim, 0) if isinstance(dim, str) else dim for dim in leaf.shape)
            for leaf in self._padded_leaves
        )

    @cached_property
    def _padded_leaves(self) -> list[LeafSpec]:
        pad = self.function.pad
        every = (leaf for spec in self.arguments.values() for leaf in walk_specs(spec))
        arrays = (leaf for leaf in every if isinstance(leaf, LeafSpec))
        return [leaf for leaf in arrays if any(dim in pad for dim in leaf.shape)]

    def _holds(self, bucket: Row, row: Row) -> bool:
        """Return whether a call of some sizes is padded to others."""
        pad = self.function.pad
        names = zip(self.order, bucket, row, strict=True)
        return all(to >= size if name in pad else to == size for name, to, size in names)

    @cached_property
    def _rows(self) -> tuple[tuple[tuple[str, int], ...], ...]:
        return self.function.rows


def fit(expanded: Expanded, recorded: RecordedFunction, seen: Seen) -> Fit:
    """Return what a call is for a function of the manifest; Mismatch if it is no call of it."""
    _check_options(expanded.function, seen)
    if expanded.function.signatures:
        msg = "it lists whole signatures; add this one under signatures:"
        raise Mismatch(msg)
    sizes: dict[str, int] = {}
    likes: list[str] = []
    differs = False
    for declared, index in _matched(expanded, seen):
        leaves = iter(seen.call.arguments[index].leaves)
        for leaf, aval in _pairs(declared, seen.trees[index], leaves, likes):
            differs |= not _bind(leaf, aval, sizes)
    missing = [name for name in expanded.order if name not in sizes]
    if missing:
        msg = f"the dim {missing[0]} is in nothing that a recording tells"
        raise Mismatch(msg)
    row = tuple(sizes[name] for name in expanded.order)
    statics = _statics(expanded.function, recorded, seen.statics)
    return Fit(row, statics, tuple(dict.fromkeys(likes)), differs)


def encoded(value: Any) -> str:
    """Return a static value as text that tells types apart."""
    return json.dumps(encode(value), sort_keys=True)


def _check_options(function: Function, seen: Seen) -> None:
    if dict(function.mesh) != seen.call.mesh:
        msg = f"its mesh is {dict(function.mesh)}, the call's is {seen.call.mesh}"
        raise Mismatch(msg)
    if sorted(function.explicit_axes) != sorted(seen.call.explicit_axes):
        msg = (
            f"its explicit axes are {[*function.explicit_axes]}, the call's "
            f"{[*seen.call.explicit_axes]}"
        )
        raise Mismatch(msg)
    ours, theirs = function.config, seen.call.config
    for name in {*ours, *theirs}:
        # An import may set an option that the manifest need not repeat.
        if name in ours and (ours[name] or None) != (theirs.get(name) or None):
            msg = f"{name} is {ours[name]!r}, and {theirs.get(name)!r} in the call"
            raise Mismatch(msg)


def _matched(expanded: Expanded, seen: Seen) -> Iterator[tuple[ArgSpec, int]]:
    """Yield the spec and the index of each argument: first by position, then by name."""
    function, names = expanded.function, seen.names
    count = len(function.positional)
    if len(names) != count + len(function.kwargs):
        msg = f"it has {_listed(expanded.arguments)}, and the call has {_listed(names)}"
        raise Mismatch(msg)
    yield from zip(function.positional.values(), range(count), strict=True)
    for name, spec in function.kwargs.items():
        if name not in names[count:]:
            msg = f"the call has no {name} by name"
            raise Mismatch(msg)
        yield spec, names.index(name, count)


def _pairs(spec: ArgSpec, tree: Tree, leaves: Iterator[Aval], likes: list[str]) -> _Pairs:
    match spec:
        case LeafSpec() if tree == LEAF:
            yield spec, next(leaves)
        case LikeSpec(ref):
            likes.append(ref)
            for _ in range(leaf_count(tree)):
                next(leaves)
        case NoneSpec() if tree == ["none"]:
            pass
        case _:
            for inner, child in zip(_children(spec, tree), children_of(tree), strict=True):
                yield from _pairs(inner, child, leaves, likes)


def _children(spec: ArgSpec, tree: Tree) -> list[ArgSpec]:
    """Return the specs inside a list, tuple or dict, in the order of the tree's children."""
    kind, count = tree[0], len(children_of(tree))
    match spec:
        case ListSpec(items) | TupleSpec(items):
            expected = "list" if isinstance(spec, ListSpec) else "tuple"
            if kind == expected and len(items) == count:
                return [*items]
        case DictSpec(items):
            found = dict(items)
            if kind == "dict" and tree[1] == sorted(found):
                return [found[key] for key in tree[1]]
    msg = "an argument has another tree"
    raise Mismatch(msg)


def _bind(leaf: LeafSpec, aval: Aval, sizes: dict[str, int]) -> bool:
    """Add the sizes of a leaf's dims; return False if a size is another one."""
    if (leaf.dtype, leaf.weak_type) != (aval.dtype, aval.weak_type):
        msg = f"an argument is {leaf.dtype}, and {aval} was passed"
        raise Mismatch(msg)
    if len(leaf.shape) != len(aval.shape):
        msg = f"an argument has {len(leaf.shape)} axes, and {aval} was passed"
        raise Mismatch(msg)
    return all(
        (sizes.setdefault(dim, size) if isinstance(dim, str) else dim) == size
        for dim, size in zip(leaf.shape, aval.shape, strict=True)
    )


def _statics(function: Function, recorded: RecordedFunction, statics: Statics) -> tuple[str, ...]:
    """Return the values of a call in the order of the manifest's static arguments."""
    given = dict(statics)
    names = [_static_name(key, recorded) for key in function.static]
    if {*names} != {*given}:
        msg = f"it has {_listed(names, 'static ')}, and the call has {_listed(given, 'static ')}"
        raise Mismatch(msg)
    return tuple(encoded(given[name]) for name in names)


def _listed(names: Iterable[str], kind: str = "") -> str:
    """Return `the arguments x, y`."""
    found = [*names]
    noun = f"{kind}argument{'' if len(found) == 1 else 's'}"
    return f"the {noun} {', '.join(found)}" if found else f"no {noun}"


def _static_name(key: str | int, recorded: RecordedFunction) -> str:
    is_known = isinstance(key, int) and 0 <= key < len(recorded.positional)
    return recorded.positional[int(key)] if is_known else str(key)
