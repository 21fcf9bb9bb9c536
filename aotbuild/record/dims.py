"""Dims: which sizes vary between the calls of a function, which vary together, and their names."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

# The index of an argument, that of a leaf of it, and that of an axis of the leaf.
Position: TypeAlias = tuple[int, int, int]
# The shape of each leaf of each argument of a call.
Shapes: TypeAlias = tuple[tuple[tuple[int, ...], ...], ...]
Sizes: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class Dims:
    """The dims of some calls.

    Attributes:
        names: The name of the dim at each position that has one.
        order: The names, in the order of their first positions.
        rows: The sizes of each call, in that order.
    """

    names: Mapping[Position, str]
    order: tuple[str, ...]
    rows: tuple[Sizes, ...]

    def of_argument(self, argument: int) -> dict[tuple[int, int], str]:
        """Return the names inside an argument, by leaf and axis."""
        return {(leaf, axis): n for (a, leaf, axis), n in self.names.items() if a == argument}


def find_dims(
    calls: Sequence[Shapes], arguments: Sequence[str], taken: Collection[str] = ()
) -> Dims:
    """Return the dims of calls whose leaves have equal ranks; `arguments` are their names.

    Positions that have equal sizes in every call are one dim. No dim gets a name that is `taken`.
    """
    together: dict[Sizes, list[Position]] = {}
    for position, sizes in _columns(calls).items():
        if len(set(sizes)) > 1:
            together.setdefault(sizes, []).append(position)
    names: dict[Position, str] = {}
    order: dict[str, Sizes] = {}
    for sizes, positions in together.items():
        name = _name(positions, calls[0], arguments, {*order, *taken})
        order[name] = sizes
        names.update(dict.fromkeys(positions, name))
    rows = [*zip(*order.values(), strict=True)] if order else [()] * len(calls)
    return Dims(names, tuple(order), tuple(rows))


def dims_option(
    order: Sequence[str], rows: Collection[Sizes]
) -> dict[str, list[int]] | list[dict[str, int]]:
    """Return `dims` as the manifest has it: all combinations if all occurred, else the rows."""
    sizes = {name: sorted({row[i] for row in rows}) for i, name in enumerate(order)}
    if len(set(rows)) == prod(map(len, sizes.values())):
        return sizes
    return [dict(zip(order, row, strict=True)) for row in sorted(set(rows))]


def _columns(calls: Sequence[Shapes]) -> dict[Position, Sizes]:
    """Return the sizes at each position, one for each call."""
    flat = [[size for leaves in call for shape in leaves for size in shape] for call in calls]
    positions = [
        (argument, leaf, axis)
        for argument, leaves in enumerate(calls[0] if calls else ())
        for leaf, shape in enumerate(leaves)
        for axis in range(len(shape))
    ]
    return dict(zip(positions, zip(*flat, strict=True), strict=True))


def _name(
    positions: Sequence[Position], shapes: Shapes, arguments: Sequence[str], taken: Collection[str]
) -> str:
    """Return `batch` for a dim of first axes, else the first argument that has it, and the axis."""
    argument, leaf, axis = positions[0]
    is_first = all(position[2] == 0 for position in positions)
    several = len(positions) > 1 or len(shapes[argument][leaf]) > 1
    if is_first and several and "batch" not in taken:
        return "batch"
    base = f"{arguments[argument]}_{axis}"
    name, number = base, 2
    while name in taken:
        name, number = f"{base}_{number}", number + 1
    return name
