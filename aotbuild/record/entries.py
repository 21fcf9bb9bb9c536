"""Entries of a manifest for observed calls: whole signatures with dims and static values.

Calls of a function that differ in sizes and static values only are one signature of the manifest:
dims and static values multiply out. Where not all combinations were called, and where calls pass
other trees or dtypes, the entry lists several signatures, so that nothing is compiled that was not
called.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from aotbuild.format.aval import Aval
from aotbuild.format.canonical import canonical_json
from aotbuild.format.values import decode, encode, shown
from aotbuild.record.call_log import CallLog, ObservedCall, ObservedFunction, Tally
from aotbuild.record.dims import Dims, dims_option, find_dims
from aotbuild.record.specs import TODO, UNKNOWN, avals_in, likes_in, todos_in, with_avals

_MANY_SIZES = 8
_PARTIAL = "let `call` name a functools.partial that has it"


@dataclass(frozen=True)
class Seen:
    """A call, its static values, how often it was called, and why no manifest can have it."""

    call: ObservedCall
    statics: dict[str, Any]
    tally: Tally
    problem: str = ""

    @cached_property
    def avals(self) -> list[list[Aval]]:
        """The avals of each argument, as far as the manifest writes them."""
        return [[*map(Aval.parse, avals_in(each.spec))] for each in self.call.arguments]

    @property
    def names(self) -> list[str]:
        """The names of its arguments."""
        return [argument.name for argument in self.call.arguments]

    @property
    def options(self) -> list[Any]:
        """What calls of one entry have in common."""
        return [self.call.config, self.call.env]

    @property
    def kind(self) -> list[Any]:
        """What calls of one signature have in common: all but sizes and static values."""
        ranks = [[[len(a.shape), a.dtype, a.weak_type] for a in avals] for avals in self.avals]
        blank = [with_avals(each.spec, _blank) for each in self.call.arguments]
        return [self.names, blank, ranks, [*self.statics]]


@dataclass(frozen=True)
class Entry:
    """What a manifest says of some calls of a function.

    Attributes:
        function: The function.
        seen: The calls that it is for.
        signatures: Each with args, kwargs, dims and static, as plain values of YAML.
        options: The other options.
        notes: What people are told of it.
        todos: What the manifest cannot say: the places and types of trees.
        modules: What a build imports for `like:`, each once.
    """

    function: ObservedFunction
    seen: tuple[Seen, ...]
    signatures: tuple[dict[str, Any], ...]
    options: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    todos: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()

    @property
    def body(self) -> dict[str, Any]:
        """The entry as plain values."""
        one = len(self.signatures) == 1
        own = self.signatures[0] if one else {"signatures": [*self.signatures]}
        return {"call": self.function.call, **own, **self.options}

    @property
    def tally(self) -> Tally:
        """The sum of all calls."""
        return sum((each.tally for each in self.seen), Tally())


def seen_of(log: CallLog, key: str, call: ObservedCall) -> Seen:
    """Return a call as a manifest has it."""
    problems = [call.problem, *(f"{a.name}: {a.problem}" for a in call.arguments if a.problem)]
    statics = {}
    for name, data in call.statics:
        statics[name], problem = _static(data)
        problems += [f"the static argument {name} is {problem}"] if problem else []
    tally = log.tallies.get(key, Tally())
    return Seen(call, statics, tally, "; ".join(filter(None, problems)))


def entries_for(function: ObservedFunction, seen: Iterable[Seen]) -> list[Entry]:
    """Return the entries for calls of a function: one for those of equal options."""
    groups: dict[bytes, list[Seen]] = {}
    for each in seen:
        groups.setdefault(canonical_json(each.options), []).append(each)
    return [_entry(function, group) for group in groups.values()]


def _entry(function: ObservedFunction, seen: Sequence[Seen]) -> Entry:
    kinds: dict[bytes, list[Seen]] = {}
    for each in seen:
        kinds.setdefault(canonical_json(each.kind), []).append(each)
    signatures: list[dict[str, Any]] = []
    notes: list[str] = []
    for group in kinds.values():
        shapes = [tuple(tuple(a.shape for a in avals) for avals in s.avals) for s in group]
        dims = find_dims(shapes, group[0].names, taken=[*group[0].statics])
        signatures += _signatures(function, group, dims)
        notes += _notes(dims)
    specs = [argument.spec for each in seen for argument in each.call.arguments]
    todos = tuple(dict.fromkeys(todo for spec in specs for todo in todos_in(spec)))
    likes = [like.partition(":")[0] for spec in specs for like in likes_in(spec)]
    modules = tuple(dict.fromkeys(likes))
    needs = "all that it reads must be in the repository"
    notes += [f"like: a build imports {module}; {needs}" for module in modules]
    options = _options(function, seen[0])
    return Entry(function, tuple(seen), tuple(signatures), options, tuple(notes), todos, modules)


def _notes(dims: Dims) -> Iterator[str]:
    for name, sizes in zip(dims.order, zip(*dims.rows, strict=True), strict=True):
        if (count := len({*sizes})) > _MANY_SIZES:
            sizes_text = f"{count} sizes from {min(sizes)} to {max(sizes)}"
            yield f"{name}: {sizes_text}; fewer compile with `pad:`, which rounds sizes up"


# --- signatures -----------------------------------------------------------------------------------


def _signatures(
    function: ObservedFunction, seen: Sequence[Seen], dims: Dims
) -> list[dict[str, Any]]:
    """Return one signature if sizes and static values are all combined, else one per values."""
    by_values: dict[bytes, list[int]] = {}
    for index, each in enumerate(seen):
        by_values.setdefault(canonical_json(each.call.statics), []).append(index)
    sizes = {frozenset(dims.rows[index] for index in places) for places in by_values.values()}
    columns = [{encoded(each.statics[name]) for each in seen} for name in seen[0].statics]
    is_product = len(sizes) == 1 and math.prod(map(len, columns)) == len(by_values)
    groups = [[*range(len(seen))]] if is_product else [*by_values.values()]
    return [_signature(function, [seen[i] for i in g], dims, g) for g in groups]


def _signature(
    function: ObservedFunction, seen: Sequence[Seen], dims: Dims, places: Sequence[int]
) -> dict[str, Any]:
    specs = {}
    for index, argument in enumerate(seen[0].call.arguments):
        texts = [*_with_names(seen[0].avals[index], dims.of_argument(index))]
        specs[argument.name] = with_avals(argument.spec, functools.partial(_next_of, texts))
    args, kwargs = _by_position(function, specs, seen[0].statics)
    rows = {dims.rows[place] for place in places}
    static: dict[str, list[Any]] = {name: [] for name in seen[0].statics}
    for name, values in static.items():
        values += {encoded(each.statics[name]): each.statics[name] for each in seen}.values()
    found: dict[str, Any] = {
        "args": [{name: spec} for name, spec in args.items()],
        "kwargs": kwargs,
        "dims": dims_option(dims.order, rows) if dims.order else {},
        "static": static,
    }
    return {key: value for key, value in found.items() if value}


def _next_of(texts: list[str], text: str) -> str:
    return UNKNOWN if text.startswith(TODO) else texts.pop(0)


def _with_names(avals: Sequence[Aval], names: dict[tuple[int, int], str]) -> Iterable[str]:
    """Yield avals with the names of their dims, as `f32[batch,64]`."""
    for leaf, aval in enumerate(avals):
        sizes = [names.get((leaf, axis), str(size)) for axis, size in enumerate(aval.shape)]
        yield f"{str(aval).partition('[')[0]}[{','.join(sizes)}]"


def _by_position(
    function: ObservedFunction, specs: dict[str, Any], statics: Iterable[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arguments by position, as far as none before is left out, and those by name."""
    left_out = {*function.static, *statics}
    slots = [name for name in function.positional if name not in left_out]
    given = [name in specs for name in slots]
    count = given.index(False) if False in given else len(slots)
    args = {name: specs[name] for name in slots[:count]}
    return args, {name: spec for name, spec in specs.items() if name not in args}


# --- options --------------------------------------------------------------------------------------


def _options(function: ObservedFunction, seen: Seen) -> dict[str, Any]:
    """Return the options of an entry besides its signatures."""
    call = seen.call
    found = {
        "wrap": function.wrap,
        "donate": [name for name in function.donate if name in seen.names],
        "config": call.config,
        "env": call.env,
        **function.options,
    }
    return {name: value for name, value in found.items() if value}


# --- static values --------------------------------------------------------------------------------


def _static(data: Any) -> tuple[Any, str]:
    """Return the value of an encoding as the manifest has it, or why it has none."""
    try:
        value = decode(data)
    except ValueError:
        return None, f"{shown(data)[:80]}, an object that YAML cannot write; {_PARTIAL}"
    if not _is_writable(value):
        return None, f"{value!r:.80}, which YAML cannot write; {_PARTIAL}"
    return value, ""


def _is_writable(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_writable, value))
    is_number = isinstance(value, float) and not math.isnan(value)
    return value is None or is_number or isinstance(value, bool | int | str)


def _blank(text: str) -> str:
    return TODO if text.startswith(TODO) else ""


def encoded(value: Any) -> str:
    """Return a static value as text that tells types apart: 1, 1.0 and True are three."""
    return json.dumps(encode(value), sort_keys=True)
