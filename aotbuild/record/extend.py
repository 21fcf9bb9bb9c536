"""What an existing entry of a manifest lacks to have recorded calls, too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from aotbuild.format.tree import leaf_count
from aotbuild.manifest import ArgSpec, DictSpec, Function, LeafSpec, ListSpec, TupleSpec
from aotbuild.manifest.specs import bind_values
from aotbuild.record.dims import Row, Shapes, dims_option, find_dims
from aotbuild.record.matching import Expanded, Fit, Mismatch, encoded
from aotbuild.record.seen import Seen, Variant
from aotbuild.record.specs import aval_text

_COMBINED = "its sizes and static values are all combined, which would compile what was not called"


@dataclass(frozen=True)
class Extension:
    """What an entry gets.

    Attributes:
        dims: All of its dims, as the manifest has them; None if they stay.
        avals: The new avals by the name of an argument and the index of a leaf.
        static: The values that are added, by the key of the static argument.
        likes: What `like:` names and is taken to be what was passed.
        signatures: How many signatures the entry has then.
    """

    dims: dict[str, list[int]] | list[dict[str, int]] | None = None
    avals: dict[tuple[str, int], str] = field(default_factory=dict)
    static: dict[str | int, list[Any]] = field(default_factory=dict)
    likes: tuple[str, ...] = ()
    signatures: int = 0

    @property
    def is_change(self) -> bool:
        """Whether the entry lacks anything."""
        return self.dims is not None or bool(self.avals or self.static)


def extension_for(
    function: Expanded, variant: Variant, fits: Sequence[Fit], most: int
) -> Extension:
    """Return what an entry lacks to have calls; Mismatch if it cannot have them.

    `fits` are the calls as the entry has them. A dim gets at most `most` new sizes.
    """
    likes = tuple(dict.fromkeys(name for each in fits for name in each.likes))
    missing = [each for each in fits if not function.covers(each)]
    old_rows = sorted(function.rows)
    if not missing:
        return Extension(likes=likes)
    if any(each.differs for each in missing):
        return _with_new_dims(function, variant, fits, likes, most)
    order = function.order
    rows = {*old_rows, *(each.row for each in missing)}
    _check_few(old_rows, rows, most)
    added = _new_statics(function, variant.seen, missing)
    count = _count(function, rows, added)
    _check_combined(function, old_rows, [(each.row, each.statics) for each in missing], count)
    dims = dims_option(order, rows) if len(rows) > len(old_rows) else None
    if dims is not None and isinstance(function.function.dims, list | tuple):
        new = sorted(rows - {*old_rows})
        dims = [dict(zip(order, row, strict=True)) for row in (*old_rows, *new)]
    return Extension(dims, {}, added, likes, count)


def _with_new_dims(
    expanded: Expanded,
    variant: Variant,
    fits: Sequence[Fit],
    likes: tuple[str, ...],
    most: int,
) -> Extension:
    """Return an extension that makes dims of sizes that were the same in all calls until now."""
    function = expanded.function
    if function.pad:
        msg = "a size that is no dim differs, and its dims are padded"
        raise Mismatch(msg)
    first, names = variant.seen[0], variant.seen[0].names
    specs = expanded.arguments
    owned = {name: specs[_own_name(function, names, name)] for name in names}
    arrays = {name: [*_arrays(spec, first, name)] for name, spec in owned.items()}
    known = {
        (a, leaf, axis): dim
        for a, name in enumerate(names)
        for leaf, spec in enumerate(arrays[name])
        for axis, dim in enumerate(spec.shape if spec else ())
        if isinstance(dim, str)
    }
    before = [_shapes(arrays, names, first, dict(row)) for row in function.rows]
    statics = [name for name, _ in first.statics]
    calls = [*before, *(seen.shapes for seen in variant.seen)]
    dims = find_dims(calls, names, known, statics)
    old, new = dims.rows[: len(before)], dims.rows[len(before) :]
    _check_few(old, dims.rows, most)
    added = _new_statics(expanded, variant.seen, fits)
    count = _count(expanded, dims.rows, added)
    wanted = [(row, each.statics) for row, each in zip(new, fits, strict=True)]
    _check_combined(expanded, old, wanted, count)
    avals = {
        (_own_name(function, names, names[a]), leaf): text
        for a, leaf, text in _changed(arrays, names, first, dims.names)
    }
    return Extension(dims_option(dims.order, dims.rows), avals, added, likes, count)


def _own_name(function: Function, names: Sequence[str], name: str) -> str:
    """Return the name that the manifest has for an argument: by position it may be another."""
    index = names.index(name)
    positional = [*function.positional]
    return positional[index] if index < len(positional) else name


def _arrays(spec: ArgSpec, seen: Seen, name: str) -> Iterable[LeafSpec | None]:
    """Yield what the manifest says of each leaf of an argument; None for what `like:` names."""
    index = seen.names.index(name)
    found = [*_leaves(spec)]
    if None in found:
        return [None] * leaf_count(seen.trees[index])
    return found


def _leaves(spec: ArgSpec) -> Iterable[LeafSpec | None]:
    match spec:
        case LeafSpec():
            yield spec
        case ListSpec(items) | TupleSpec(items):
            for item in items:
                yield from _leaves(item)
        case DictSpec(items):
            for _, item in sorted(items):
                yield from _leaves(item)
        case _ if spec.form == "like":
            yield None


def _shapes(
    arrays: dict[str, list[LeafSpec | None]], names: Sequence[str], seen: Seen, row: dict[str, int]
) -> Shapes:
    """Return the shapes of a signature of the manifest; those under `like:` are as they were."""
    return tuple(
        tuple(
            _bound(spec, row) if spec else aval.shape
            for spec, aval in zip(arrays[name], seen.call.arguments[a].leaves, strict=True)
        )
        for a, name in enumerate(names)
    )


def _bound(spec: LeafSpec, row: dict[str, int]) -> tuple[int, ...]:
    bound = bind_values(spec, row)
    assert isinstance(bound, LeafSpec)
    return tuple(int(size) for size in bound.shape)


def _changed(
    arrays: dict[str, list[LeafSpec | None]],
    names: Sequence[str],
    seen: Seen,
    found: Any,
) -> Iterable[tuple[int, int, str]]:
    """Yield the argument, leaf and new aval where a dim has a place that it did not have."""
    changed: dict[tuple[int, int], dict[tuple[int, int], str]] = {}
    for (argument, leaf, axis), name in found.items():
        spec = arrays[names[argument]][leaf]
        if spec is None:
            msg = f"{names[argument]} has several sizes, and the manifest has it by like:"
            raise Mismatch(msg)
        changed.setdefault((argument, leaf), {})[leaf, axis] = name
    for (argument, leaf), own in changed.items():
        spec = arrays[names[argument]][leaf]
        text = aval_text(seen.call.arguments[argument].leaves[leaf], leaf, own)
        if spec and tuple(own.get((leaf, x), d) for x, d in enumerate(spec.shape)) != spec.shape:
            yield argument, leaf, text


# --- combinations ---------------------------------------------------------------------------------


def _new_statics(
    function: Expanded, seen: Sequence[Seen], missing: Sequence[Fit]
) -> dict[str | int, list[Any]]:
    """Return the values that static arguments lack, by the manifest's key."""
    values = {encoded(value): value for each in seen for _, value in each.statics}
    found: dict[str | int, list[Any]] = {}
    keys = zip(function.function.static, function.statics, strict=True)
    for index, (key, known) in enumerate(keys):
        wanted = dict.fromkeys(each.statics[index] for each in missing)
        new = [values[text] for text in wanted if text not in known]
        if new:
            found[key] = new
    return found


def _count(function: Expanded, rows: Iterable[Row], added: dict[str | int, list[Any]]) -> int:
    """Return how many signatures an entry has with some rows and values more."""
    statics = [len(v) + len(added.get(key, ())) for key, v in function.function.static.items()]
    return len(set(rows)) * prod(statics)


def _check_few(old: Iterable[Row], rows: Iterable[Row], most: int) -> None:
    before, after = zip(*old, strict=True), zip(*rows, strict=True)
    if any(len({*sizes} - {*known}) > most for known, sizes in zip(before, after, strict=True)):
        msg = f"a dim would get more than {most} new sizes"
        raise Mismatch(msg)


def _check_combined(
    function: Expanded,
    old_rows: Sequence[Row],
    wanted: Iterable[tuple[Row, tuple[str, ...]]],
    count: int,
) -> None:
    known, rows = function.statics, {*old_rows}
    old = len(rows) * prod(map(len, known))
    new = {
        each
        for each in wanted
        if each[0] not in rows or not all(v in k for v, k in zip(each[1], known, strict=True))
    }
    if old + len(new) != count:
        raise Mismatch(_COMBINED)
