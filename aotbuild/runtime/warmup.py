"""Dispatch warm-up: calls on zeros, made as callers make theirs, that fill the C++ cache.

The C++ cache tells calls apart by tree, avals and static values, and also by the kind of array that
each leaf is: a numpy array, a jax array on the default device, a jax array committed to devices.
The backend says which kinds it has.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from aotbuild.format.record import Record
from aotbuild.format.signature import Function
from aotbuild.format.values import decode

# For each kind of array, a function that makes zeros for the leaves of a signature.
Examples: TypeAlias = Mapping[str, Callable[[], list[Any]]]
# (args, kwargs, the values among these that are not static).
ExampleCall: TypeAlias = tuple[list[Any], dict[str, Any], list[Any]]

# With k kinds and n arguments there are k^n calls. If there are more than this, only usual ones are
# made.
_MOST_CALLS = 9


def example_calls(
    function: Function, record: Record, treedef: Any, examples: Examples
) -> Iterator[ExampleCall]:
    """Yield the usual calls of a record, on zeros."""
    arguments, keywords = treedef.children()
    trees = [*arguments.children(), *keywords.children()]
    # The arrays that this signature lacks are the last ones of `dynamic`.
    names = [*function.dynamic[: len(arguments.children())], *record.signature.tree[2][1]]
    statics = _statics(function, record)
    for kinds in _combinations(trees, list(examples)):
        values = _values(trees, kinds, examples)
        yield _as_written(function, dict(zip(names, values, strict=True)), statics)


def _combinations(trees: Sequence[Any], kinds: Sequence[str]) -> list[tuple[str, ...]]:
    """Return a kind for each argument: every combination, or the usual ones of too many."""
    if len(kinds) ** len(trees) <= _MOST_CALLS:
        return list(itertools.product(kinds, repeat=len(trees)))
    first, *others = kinds
    same = [(kind,) * len(trees) for kind in kinds]
    # Weights that were put on a device once, and inputs as they come.
    mixed = [tuple(kind if tree.num_nodes > 1 else first for tree in trees) for kind in others]
    return list(dict.fromkeys([*same, *mixed]))


def _values(trees: Sequence[Any], kinds: Sequence[str], examples: Examples) -> list[Any]:
    leaves = {kind: examples[kind]() for kind in dict.fromkeys(kinds)}
    values, begin = [], 0
    for tree, kind in zip(trees, kinds, strict=True):
        end = begin + tree.num_leaves
        values.append(tree.unflatten(leaves[kind][begin:end]))
        begin = end
    return values


def _statics(function: Function, record: Record) -> dict[str, Any]:
    """Return the static values that a call must pass; ValueError if one cannot be decoded."""
    defaults = {item.name: item.default for item in function.statics if item.has_default}
    return {
        name: decode(value)
        for name, value in record.signature.statics
        if name not in defaults or defaults[name] != value
    }


def _as_written(function: Function, arrays: dict[str, Any], statics: dict[str, Any]) -> ExampleCall:
    """Return a call as people write it: arrays by position as far as possible, the rest by name."""
    named, args, zeros = arrays | statics, [], [*arrays.values()]
    left = set(function.dynamic)
    for name in function.positional:
        if not left or name not in named:
            break
        args.append(named.pop(name))
        left.discard(name)
    return args, named, zeros
