"""One entry for calls of a function that pass different trees: a dim selects those of a call.

The state of a first step often has weak types that later ones lack, and a module has two modes. As
entries of their own, such calls would be functions of their own, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aotbuild.format.canonical import canonical_json
from aotbuild.record.check_entry import entry_problem
from aotbuild.record.combinations import combined, static_option
from aotbuild.record.dims import Dims, Row, dims_option, find_dims
from aotbuild.record.entries import Choice, Entry, Limits, by_position, entries_for, plain_spec
from aotbuild.record.recorded_options import Unsupported, options_of
from aotbuild.record.recording import RecordedFunction
from aotbuild.record.seen import Seen, Variant

_DIM = "variant"
_NO_DIMS = Dims({}, (), ())


def entries_of(variants: Sequence[Variant], limits: Limits) -> list[Entry]:
    """Return the entries for calls of one function: one for variants that a dim can tell apart."""
    groups: dict[bytes, list[Variant]] = {}
    for variant in variants:
        groups.setdefault(_options_key(variant.seen[0]), []).append(variant)
    return [entry for group in groups.values() for entry in _of_group(group, limits)]


def _options_key(seen: Seen) -> bytes:
    """Return what calls of one entry have in common, whatever their trees are."""
    call = seen.call
    shardings = [argument.shardings for argument in call.arguments]
    statics = [name for name, _ in call.statics]
    return canonical_json(
        [seen.names, statics, call.config, call.env, call.mesh, call.explicit_axes, shardings]
    )


def _of_group(group: Sequence[Variant], limits: Limits) -> list[Entry]:
    found = _joined(group, limits) if len(group) > 1 else []
    if found and not any(each.problems or entry_problem(each) for each in found):
        return found
    return [entry for variant in group for entry in entries_for(variant, limits)]


def _joined(group: Sequence[Variant], limits: Limits) -> list[Entry]:
    """Return entries whose trees a dim selects; none if there are too many trees or sizes."""
    function, seen = group[0].function, [each for variant in group for each in variant.seen]
    all_calls = _Calls.of(seen)
    sizes = zip(*all_calls.rows, strict=True)
    if any(len(set(each)) > limits.most for each in sizes):
        return []
    rows = dict(zip(map(id, seen), all_calls.rows, strict=True))
    return [_entry(function, part, limits) for part in combined(seen, lambda each: rows[id(each)])]


@dataclass(frozen=True)
class _Calls:
    """Calls as one entry has them.

    Attributes:
        seen: The calls.
        differing: The indices of the arguments that are different trees.
        dim: The name of the dim that selects them.
        firsts: For each value of the dim the first call that has it.
        dims: The dims of the other arguments.
        rows: The sizes of each call; the last one is the value of the dim that selects.
    """

    seen: Sequence[Seen]
    differing: tuple[int, ...]
    dim: str
    firsts: tuple[Seen, ...]
    dims: Dims
    rows: tuple[Row, ...]

    @classmethod
    def of(cls, seen: Sequence[Seen]) -> _Calls:
        names, statics = seen[0].names, [name for name, _ in seen[0].statics]
        kinds = [{_kind(each, index) for each in seen} for index in range(len(names))]
        differing = tuple(index for index, found in enumerate(kinds) if len(found) > 1)
        keys = [_key(each, differing) for each in seen]
        places = {key: place for place, key in enumerate(dict.fromkeys(keys))}
        firsts = tuple(seen[keys.index(key)] for key in places)
        dim = _free(_DIM, {*names, *statics})
        shapes = [
            tuple(() if index in differing else shape for index, shape in enumerate(each.shapes))
            for each in seen
        ]
        dims = find_dims(shapes, names, taken=[*statics, dim])
        rows = tuple((*row, places[key]) for row, key in zip(dims.rows, keys, strict=True))
        return cls(seen, differing, dim, firsts, dims, rows)

    def note(self) -> str:
        """Return what people are told of the trees."""
        names = ", ".join(self.seen[0].names[index] for index in self.differing)
        what = "weak types" if self._differ_in_weak_types_only() else "trees"
        return f"{self.dim}: {len(self.firsts)} kinds of {names}, which differ in {what}"

    def _differ_in_weak_types_only(self) -> bool:
        return len({_key(each, self.differing, strong=True) for each in self.firsts}) == 1


def _entry(function: RecordedFunction, seen: Sequence[Seen], limits: Limits) -> Entry:
    variant, calls = Variant(function, tuple(seen)), _Calls.of(seen)
    if len(calls.firsts) == 1:
        return entries_for(variant, limits)[0]
    specs: dict[str, Any] = {}
    for index, name in enumerate(seen[0].names):
        if index in calls.differing:
            alone = (Variant(function, (each,)) for each in calls.firsts)
            found = tuple(plain_spec(each, index, _NO_DIMS) for each in alone)
            specs[name] = Choice(calls.dim, found)
        else:
            specs[name] = plain_spec(variant, index, calls.dims)
    statics = static_option(seen)
    args, kwargs = by_position(function, specs, statics)
    try:
        options = options_of(function, seen[0])
        problems: tuple[str, ...] = ()
    except Unsupported as err:
        options, problems = {}, (str(err),)
    dims = dims_option((*calls.dims.order, calls.dim), calls.rows)
    notes = (calls.note(),)
    return Entry(variant, args, kwargs, dims, {}, statics, options, notes, problems)


def _kind(seen: Seen, index: int) -> bytes:
    """Return what tells an argument from one that dims cannot make of it."""
    leaves = seen.call.arguments[index].leaves
    kinds = [[len(aval.shape), aval.dtype, aval.weak_type] for aval in leaves]
    return canonical_json([seen.trees[index], kinds])


def _key(seen: Seen, indices: Sequence[int], *, strong: bool = False) -> bytes:
    """Return what tells some arguments from others; with `strong` whatever their weak types are."""
    strip = "~" if strong else ""
    leaves = [[str(a).lstrip(strip) for a in seen.call.arguments[i].leaves] for i in indices]
    return canonical_json([[seen.trees[index] for index in indices], leaves])


def _free(name: str, taken: set[str]) -> str:
    number, found = 2, name
    while found in taken:
        number, found = number + 1, f"{name}_{number}"
    return found
