"""Recordings made by hand, for tests of what is made of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aotbuild.format.aval import Aval
from aotbuild.format.tree import LEAF, Tree
from aotbuild.format.values import encode
from aotbuild.record.recording import (
    RecordedArgument,
    RecordedCall,
    RecordedFunction,
    Recording,
    Tally,
)


def argument(name: str, *avals: str, tree: Tree = LEAF, **more: Any) -> RecordedArgument:
    """Return an argument: a leaf, or the leaves of a tree."""
    return RecordedArgument(name, tree, tuple(map(Aval.parse, avals)), **more)


@dataclass(frozen=True)
class Call:
    """A call: its arguments, the values of its static ones, and how often it was called."""

    arguments: Sequence[RecordedArgument]
    statics: Mapping[str, Any] = field(default_factory=dict)
    times: int = 1
    seconds: float = 1.0
    more: Mapping[str, Any] = field(default_factory=dict)


def call(
    *arguments: RecordedArgument, times: int = 1, seconds: float = 1.0, **statics: Any
) -> Call:
    """Return a call without anything else."""
    return Call(arguments, statics, times, seconds)


def recording(
    named: Mapping[str, Sequence[Call]], *functions: tuple[RecordedFunction, Iterable[Call]]
) -> Recording:
    """Return a recording; functions that are only named get the parameters of their first call."""
    made = [(_function(name, calls[0]), calls) for name, calls in named.items()]
    found = Recording()
    for function, calls in (*made, *functions):
        found.functions[function.key] = function
        for each in calls:
            statics = tuple(sorted((name, encode(value)) for name, value in each.statics.items()))
            call = RecordedCall(function.key, tuple(each.arguments), statics, **each.more)
            tally = Tally(each.times, 1, 0.0, 0.0, each.seconds)
            found.calls[call.key] = call
            found.tallies[call.key] = found.tallies.get(call.key, Tally()) + tally
    return found


def _function(name: str, first: Call) -> RecordedFunction:
    positional = (*(each.name for each in first.arguments), *first.statics)
    return RecordedFunction(name, positional=positional, static=tuple(first.statics))
