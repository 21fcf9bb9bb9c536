"""Split calls so that the static values and the sizes of each part are all combined.

A manifest combines each static value with each row of dims. Calls that did not combine all of them
become several entries, so that nothing is compiled that was not called.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from math import prod
from typing import Any

from aotbuild.record.matching import encoded
from aotbuild.record.seen import Seen

Values = tuple[str, ...]


def combined(seen: Sequence[Seen], sizes: Callable[[Seen], Hashable]) -> list[list[Seen]]:
    """Return the calls in parts; `sizes` is what a call is beside its static values."""
    by_values: dict[Values, list[Seen]] = {}
    for each in seen:
        by_values.setdefault(_values(each), []).append(each)
    by_sizes: dict[Hashable, list[Values]] = {}
    for values, calls in by_values.items():
        by_sizes.setdefault(frozenset(map(sizes, calls)), []).append(values)
    return [
        [each for values in block for each in by_values[values]]
        for group in by_sizes.values()
        for block in _products(group)
    ]


def static_option(seen: Sequence[Seen]) -> dict[str, list[Any]]:
    """Return `static` as the manifest has it, for calls that are combined."""
    found: dict[str, dict[str, Any]] = {name: {} for name, _ in seen[0].statics}
    for each in seen:
        for name, value in each.statics:
            found[name].setdefault(encoded(value), value)
    return {name: [*values.values()] for name, values in found.items()}


def _products(group: list[Values]) -> Iterator[list[Values]]:
    """Yield parts of tuples that are each a product of its columns."""
    columns = [len(set(column)) for column in zip(*group, strict=True)]
    if prod(columns) == len(group):
        yield group
        return
    split = min((c for c in range(len(columns)) if columns[c] > 1), key=lambda c: columns[c])
    parts: dict[str, list[Values]] = {}
    for values in group:
        parts.setdefault(values[split], []).append(values)
    # Values of the column whose other columns are the same stay together.
    same: dict[frozenset[Values], list[Values]] = {}
    for part in parts.values():
        rest = frozenset((*values[:split], *values[split + 1 :]) for values in part)
        same.setdefault(rest, []).extend(part)
    for together in same.values():
        if len(together) == len(group):  # one part: its rest is no product
            for part in parts.values():
                yield from _products(part)
        else:
            yield from _products(together)


def _values(seen: Seen) -> Values:
    return tuple(encoded(value) for _, value in seen.statics)
