"""Entries of a manifest for recorded calls: arguments, dims, buckets, static values, options."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from aotbuild.record.buckets import Buckets, choose_buckets
from aotbuild.record.combinations import combined, static_option
from aotbuild.record.counted import counted
from aotbuild.record.dims import Dims, Row, dims_option, find_dims
from aotbuild.record.recorded_options import Unsupported, options_of
from aotbuild.record.recording import RecordedFunction
from aotbuild.record.seen import Variant
from aotbuild.record.specs import Inexpressible, spec_of

# A larger tree is written by the name of a global that has it, if there is one.
_FEW_LEAVES = 6
_SHOWN_SIZES = 5


@dataclass(frozen=True)
class Limits:
    """When sizes are padded: more sizes than `most`, and the waste that is taken for fewer."""

    most: int
    max_waste: float


@dataclass(frozen=True)
class Entry:
    """What a manifest says of some calls of a function.

    Attributes:
        calls: The calls that it is for.
        args: The arguments by position, (name, spec): plain values of YAML.
        kwargs: The arguments by name.
        dims: The sizes of the dims, as the manifest has them.
        pad: The value that each padded dim is padded with.
        static: The values of the static arguments.
        options: The other options.
        notes: What people are told of it.
        problems: Why it cannot be compiled; it is written as a comment then.
    """

    calls: Variant
    args: tuple[tuple[str, Any], ...] = ()
    kwargs: tuple[tuple[str, Any], ...] = ()
    dims: dict[str, list[int]] | list[dict[str, int]] = field(default_factory=dict)
    pad: dict[str, int] = field(default_factory=dict)
    static: dict[str, list[Any]] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def call(self) -> str:
        """Where the function is."""
        return self.calls.function.call

    @property
    def body(self) -> dict[str, Any]:
        """The entry as plain values."""
        found: dict[str, Any] = {"call": self.call}
        if self.args:
            found["args"] = [{name: spec} for name, spec in self.args]
        if self.kwargs:
            found["kwargs"] = dict(self.kwargs)
        found |= {"dims": self.dims} if self.dims else {}
        found |= {"pad": self.pad} if self.pad else {}
        found |= {"static": self.static} if self.static else {}
        return {**found, **self.options}


def entries_for(variant: Variant, limits: Limits) -> list[Entry]:
    """Return the entries for calls that differ in sizes and static values only."""
    _, padded = _padded_dims(variant, limits)
    rows = dict(zip(map(id, variant.seen), padded, strict=True))
    parts = combined(variant.seen, lambda seen: rows[id(seen)])
    if len(parts) == 1:
        return [_entry(variant, limits)]
    # A part may have so few sizes that none is padded: then they may not be combined any more.
    variants = (Variant(variant.function, tuple(part)) for part in parts)
    return [entry for each in variants for entry in entries_for(each, limits)]


def problem_entry(variant: Variant) -> Entry:
    """Return an entry that is written as a comment, for calls that no manifest can have."""
    seen = variant.seen[0]
    problems = dict.fromkeys(problem for each in variant.seen for problem in each.problems)
    specs = {
        argument.name: _partly(tree, argument.leaves)
        for argument, tree in zip(seen.call.arguments, seen.trees, strict=True)
    }
    args, kwargs = by_position(variant.function, specs, [name for name, _ in seen.statics])
    return Entry(variant, args, kwargs, problems=tuple(problems))


def _entry(variant: Variant, limits: Limits) -> Entry:
    seen, function = variant.seen, variant.function
    found, rows = _padded_dims(variant, limits)
    statics = static_option(seen)
    specs, problems = {}, []
    for index, argument in enumerate(seen[0].call.arguments):
        specs[argument.name] = plain_spec(variant, index, found.dims)
    try:
        options = options_of(function, seen[0])
    except Unsupported as err:
        options, problems = {}, [str(err)]
    args, kwargs = by_position(function, specs, statics)
    return Entry(
        variant,
        args,
        kwargs,
        dims_option(found.dims.order, rows) if found.dims.order else {},
        dict.fromkeys(found.buckets, 0),
        statics,
        options,
        tuple(found.notes()),
        tuple(problems),
    )


# --- dims and buckets -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Padded:
    """Dims, and the buckets and histograms of those that are padded."""

    dims: Dims
    buckets: dict[str, Buckets]
    histograms: dict[str, Counter[int]]
    kept: tuple[str, ...]

    def notes(self) -> Iterable[str]:
        for name, buckets in self.buckets.items():
            counts = self.histograms[name]
            most = counts.most_common(_SHOWN_SIZES)
            often = ", ".join(f"{size} ({counted(calls, 'call')})" for size, calls in most)
            few = counted(len(buckets.sizes), "size")
            yield (
                f"{name}: {len(counts)} sizes from {min(counts)} to {max(counts)}, "
                f"most often {often}"
            )
            yield (
                f"{name}: padded to {few}; {buckets.waste:.0%} of the work is padding. "
                "The build checks that padding changes no result."
            )
        for name in self.kept:
            yield f"{name}: {len(self.histograms[name])} sizes; PRNG keys cannot be padded"


def _padded_dims(variant: Variant, limits: Limits) -> tuple[_Padded, list[Row]]:
    """Return the dims of calls, and the row of each call: its sizes, or those it is padded to."""
    names = [argument.name for argument in variant.seen[0].call.arguments]
    statics = [name for name, _ in variant.seen[0].statics]
    dims = find_dims([seen.shapes for seen in variant.seen], names, taken=statics)
    buckets, histograms, kept = {}, {}, []
    for index, name in enumerate(dims.order):
        counts: Counter[int] = Counter()
        for seen, row in zip(variant.seen, dims.rows, strict=True):
            counts[row[index]] += max(1, seen.tally.calls)
        if len(counts) > limits.most:
            histograms[name] = counts
            if _is_of_keys(variant, dims, name):
                kept.append(name)
            else:
                buckets[name] = choose_buckets(counts, limits.most, limits.max_waste)
    order = dims.order
    rows = [
        tuple(buckets[n].of(size) if n in buckets else size for n, size in zip(order, row))  # noqa: B905
        for row in dims.rows
    ]
    return _Padded(dims, buckets, histograms, tuple(kept)), rows


def _is_of_keys(variant: Variant, dims: Dims, name: str) -> bool:
    arguments = variant.seen[0].call.arguments
    places = [(a, leaf) for (a, leaf, _), each in dims.names.items() if each == name]
    return any(arguments[a].leaves[leaf].dtype.startswith("key<") for a, leaf in places)


# --- arguments ------------------------------------------------------------------------------------


def plain_spec(variant: Variant, index: int, dims: Dims) -> Any:
    """Return what the manifest says of an argument."""
    seen, names = variant.seen[0], dims.of_argument(index)
    argument, tree = seen.call.arguments[index], seen.trees[index]
    likes = {each.call.arguments[index].like for each in variant.seen}
    like = next(iter(likes)) if len(likes) == 1 and not names else ""
    try:
        plain = spec_of(tree, argument.leaves, names)
    except Inexpressible:
        return {"like": like} if like else "TODO"
    return {"like": like} if like and len(argument.leaves) > _FEW_LEAVES else plain


def _partly(tree: Any, leaves: Any) -> Any:
    """Return what is known of an argument that the manifest may not be able to have."""
    try:
        return spec_of(tree, leaves, {}) if tree is not None else "TODO"
    except Inexpressible:
        return "TODO"


def by_position(
    function: RecordedFunction, specs: dict[str, Any], statics: Iterable[str]
) -> tuple[tuple[tuple[str, Any], ...], tuple[tuple[str, Any], ...]]:
    """Return the arguments by position, as far as none before is left out, and those by name."""
    left_out = {*function.static, *statics}
    slots = [name for name in function.positional if name not in left_out]
    count = 0
    while count < len(slots) and slots[count] in specs:
        count += 1
    # What is no parameter was passed through `*args`, after all others.
    rest = [n for n in specs if n not in slots and n not in function.keywords]
    first = [*slots[:count], *(rest if count == len(slots) else ())]
    args = tuple((name, specs[name]) for name in first)
    return args, tuple((name, spec) for name, spec in specs.items() if name not in first)
