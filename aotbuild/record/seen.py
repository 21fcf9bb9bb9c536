"""Recorded calls, sorted by what one entry of a manifest can say."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from aotbuild.format.canonical import canonical_json
from aotbuild.format.tree import Tree
from aotbuild.format.values import decode, shown
from aotbuild.format.words import SHOWN
from aotbuild.record.dims import Shapes
from aotbuild.record.recording import RecordedCall, RecordedFunction, Recording, Tally

# Statics of a call: (name, value) pairs, sorted by name, and values as YAML has them.
Statics = tuple[tuple[str, Any], ...]
_PARTIAL = "let `call` name a functools.partial that has it"


@dataclass(frozen=True)
class Seen:
    """A recorded call, what it is for a manifest, and how often it was called.

    Attributes:
        call: The call.
        trees: For each argument the description of its tree, as another process compares it.
        statics: Its static values, decoded.
        tally: How often it was called and how long it was compiled.
        problems: Why no manifest can have it.
    """

    call: RecordedCall
    trees: tuple[Tree, ...]
    statics: Statics
    tally: Tally
    problems: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its arguments."""
        return tuple(argument.name for argument in self.call.arguments)

    @cached_property
    def shapes(self) -> Shapes:
        """The shapes of all leaves."""
        return tuple(tuple(aval.shape for aval in a.leaves) for a in self.call.arguments)

    @cached_property
    def statics_key(self) -> bytes:
        """What tells its static values from others: 1, 1.0 and True are three."""
        return canonical_json(self.call.statics)


@dataclass(frozen=True)
class Variant:
    """Calls of one function that differ in sizes and static values only."""

    function: RecordedFunction
    seen: tuple[Seen, ...]

    @property
    def tally(self) -> Tally:
        """The sum of all calls."""
        return sum((each.tally for each in self.seen), Tally())


def variants_of(
    recording: Recording, functions: Iterable[RecordedFunction]
) -> tuple[list[Variant], list[Variant]]:
    """Return the variants of functions that a manifest can have, and one of those that it cannot.

    The functions are one for a manifest: they differ in their source only.
    """
    good: dict[bytes, list[Seen]] = {}
    bad: list[Seen] = []
    known = [*functions]
    for function in known:
        for key, call in recording.of(function.key).items():
            seen = seen_of(call, recording.tallies.get(key, Tally()))
            (bad if seen.problems else good.setdefault(_kind(seen), [])).append(seen)
    found = [Variant(known[-1], _once(seen)) for seen in good.values()]
    return found, [Variant(known[-1], tuple(bad))] if bad else []


def same_for_a_manifest(functions: Mapping[str, RecordedFunction]) -> list[list[RecordedFunction]]:
    """Return functions that one entry can stand for: other files and versions of one function."""
    found: dict[bytes, list[RecordedFunction]] = {}
    about = {"file", "line", "distribution", "version", "digest"}
    for function in functions.values():
        data = {name: value for name, value in function.to_json().items() if name not in about}
        found.setdefault(canonical_json(data), []).append(function)
    return [*found.values()]


def seen_of(call: RecordedCall, tally: Tally) -> Seen:
    """Return a recorded call with what it is for a manifest."""
    problems = [call.problem] if call.problem else []
    problems += [f"{a.name}: {a.problem}" for a in call.arguments if a.problem]
    problems += [f"{a.name}: its tree is unknown" for a in call.arguments if _is_lost(a)]
    statics = []
    for name, data in call.statics:
        value, problem = _static(data)
        problems += [f"the static argument {name} is {problem}"] if problem else []
        statics.append((name, value))
    trees = tuple(argument.tree for argument in call.arguments)
    return Seen(call, trees, tuple(sorted(statics)), tally, tuple(dict.fromkeys(problems)))


def _is_lost(argument: Any) -> bool:
    return argument.tree is None and not argument.problem


def _static(data: Any) -> tuple[Any, str]:
    """Return the value of an encoding as the manifest has it, or why it has none."""
    try:
        value = decode(data)
    except ValueError:
        return None, f"{_short(_name(data))}, an object that YAML cannot write; {_PARTIAL}"
    if not _is_writable(value):
        return None, f"{_short(repr(value))}, which YAML cannot write; {_PARTIAL}"
    return value, ""


def _name(data: Any) -> str:
    """Return `module:Color.RED` of a member of an enum, `module:f` of what has a name."""
    match data:
        case {"enum": [str(kind), str(name)]}:
            return f"{kind}.{name}"
        case {"name": str(name)}:
            return name
    return shown(data)


def _short(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


def _is_writable(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_writable, value))
    if isinstance(value, float):
        return not math.isnan(value)
    return value is None or isinstance(value, bool | int | str)


def _kind(seen: Seen) -> bytes:
    """Return what calls of one entry have in common."""
    call = seen.call
    arguments = [
        [
            argument.name,
            tree,
            [[len(a.shape), a.dtype, a.weak_type] for a in argument.leaves],
            argument.shardings,
        ]
        for argument, tree in zip(call.arguments, seen.trees, strict=True)
    ]
    statics = [name for name, _ in call.statics]
    about = [call.config, call.env, call.mesh, call.explicit_axes]
    return canonical_json([arguments, statics, *about])


def _once(seen: Iterable[Seen]) -> tuple[Seen, ...]:
    """Return each signature once: several platforms, or two versions of a function, may have it."""
    found: dict[tuple[Any, bytes], Seen] = {}
    for each in seen:
        key = each.shapes, each.statics_key
        before = found.get(key)
        tally = each.tally + before.tally if before else each.tally
        found[key] = Seen(each.call, each.trees, each.statics, tally)
    return tuple(found.values())
