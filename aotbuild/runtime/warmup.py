"""Priming: calls on zeros, made as callers make theirs, for a cache that knows them from then on.

A C++ cache tells calls apart by tree, avals and static values, and also by what kind of array each
leaf is: numpy's, one on no device in particular, one committed to its devices. The door says which
kinds it has.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, TypeAlias

from aotbuild.spec.record import Record
from aotbuild.spec.signature import Function
from aotbuild.spec.values import decode

# By kind of array: makes zeros for the leaves of a signature, each time anew.
Examples: TypeAlias = Mapping[str, Callable[[], list[Any]]]
# (args, kwargs, the values of these that are not static).
Call: TypeAlias = tuple[list[Any], dict[str, Any], list[Any]]

# With k kinds and n arguments there are k^n calls; of more, only these are made that are usual.
_MOST_CALLS = 9


class Ready:
    """What executables gave when they were run, so that a call that is only told does not run."""

    def __init__(self, executable: Any, outputs: list[Any]) -> None:
        self._outputs = {id(executable): (executable, outputs)}
        self._told: list[Any] = []

    def outputs(self, executable: Any) -> list[Any]:
        """Return the outputs of an executable; runs it on zeros if that has not been done."""
        if id(executable) not in self._outputs:
            self._outputs[id(executable)] = executable, executable.run_on_zeros()
        return self._outputs[id(executable)][1]

    def tell(self, call: Callable[..., Any], example: Call) -> None:
        """Make a call that runs nothing."""
        args, kwargs, self._told = example
        token = _READY.set(self)
        try:
            call(*args, **kwargs)
        finally:
            _READY.reset(token)

    def serves(self, values: Iterable[Any]) -> bool:
        """Return whether these are the zeros of the call that is told.

        Small numbers and short strings are one object wherever they are, so statics do not count.
        """
        return all(any(value is told for told in self._told) for value in values)


# Set while a kernel is told of a call, in this thread only.
_READY: ContextVar[Ready | None] = ContextVar("aotbuild_ready", default=None)


def ready_for(values: Iterable[Any]) -> Ready | None:
    """Return what answers a call with these arguments if it is told, None if it is to be run.

    A signal handler or a finalizer may come in the middle, and call for the sake of the result.
    """
    ready = _READY.get()
    return ready if ready and ready.serves(values) else None


def tell(call: Callable[..., Any], calls: Iterable[Call], ready: Ready) -> None:
    """Make calls that run nothing: what `ready` has is their result."""
    for example in calls:
        ready.tell(call, example)


def example_calls(
    function: Function, record: Record, treedef: Any, examples: Examples
) -> Iterator[Call]:
    """Yield the usual calls of a record, on zeros."""
    arguments, keywords = treedef.children()
    trees = [*arguments.children(), *keywords.children()]
    names = [*function.dynamic, *sorted(function.keywords)]
    statics = _statics(function, record)
    for kinds in _combinations(trees, list(examples)):
        values = _values(trees, kinds, examples)
        yield _as_given(function, dict(zip(names, values, strict=True)), statics)


def _combinations(trees: Sequence[Any], kinds: Sequence[str]) -> list[tuple[str, ...]]:
    """Return a kind for each argument: all there are, or the usual ones where these are many."""
    if len(kinds) ** len(trees) <= _MOST_CALLS:
        return list(itertools.product(kinds, repeat=len(trees)))
    first, *others = kinds
    same = [(kind,) * len(trees) for kind in kinds]
    # Weights that were put somewhere once, and inputs as they come.
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
    """Return the static values that a call has to give; ValueError for one that is only a name."""
    defaults = {item.name: item.default for item in function.statics if item.has_default}
    return {
        name: decode(value)
        for name, value in record.signature.statics
        if name not in defaults or defaults[name] != value
    }


def _as_given(function: Function, arrays: dict[str, Any], statics: dict[str, Any]) -> Call:
    """Return a call as people write it: arrays by position while they can be, the rest by name."""
    named, args, zeros = arrays | statics, [], [*arrays.values()]
    left = set(function.dynamic)
    for name in function.positional:
        if not left or name not in named:
            break
        args.append(named.pop(name))
        left.discard(name)
    return args, named, zeros
