"""Find where in a program all that is before must be done before the rest begins.

XLA:CPU runs a thunk as soon as those are done that it waits for. It waits for an earlier one if one
of the two writes memory that the other reads or writes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import NamedTuple

# Programs that are not looked at, as it would take seconds: so many thunks, so many users of parts.
_MOST_THUNKS = 20_000
_MOST_VISITS = 2_000_000


class Slice(NamedTuple):
    """A part of an allocation of memory: its number, and offset and size in bytes."""

    allocation: int
    offset: int
    size: int


class Uses(NamedTuple):
    """The memory that a thunk reads, and the memory that it writes."""

    reads: tuple[Slice, ...]
    writes: tuple[Slice, ...]


def barriers(program: Sequence[Uses], brief: Collection[int] = ()) -> list[int]:
    """Return the numbers of thunks where all that is before must be done before the rest begins.

    Those in `brief` do not count, on either side. In rising order, without the first; none where
    the program is too large to look at.
    """
    awaited = _awaited(program)
    uncounted = sum(1 << number for number in brief)
    found = []
    lowest = len(awaited)
    for number in range(len(awaited) - 1, 0, -1):
        missing = ~(awaited[number] | uncounted) & ((1 << number) - 1)
        if missing and number not in brief:
            lowest = min(lowest, (missing & -missing).bit_length() - 1)
        if lowest >= number:
            found.append(number)
    return found[::-1]


def _awaited(program: Sequence[Uses]) -> list[int]:
    """Return for each thunk those it waits for, also through others: a bit for each; or nothing."""
    if len(program) > _MOST_THUNKS:
        return []
    memory: dict[int, _Allocation] = defaultdict(_Allocation)
    awaited: list[int] = []
    visits = 0
    for number, uses in enumerate(program):
        before: list[int] = []
        for part in uses.reads:
            before += memory[part.allocation].read(part, number)
        for part in uses.writes:
            before += memory[part.allocation].write(part, number)
        visits += len(before)
        if visits > _MOST_VISITS:
            return []
        bits = 0
        for other in sorted({*before} - {number}, reverse=True):
            if not bits >> other & 1:
                bits |= awaited[other] | 1 << other
        awaited.append(bits)
    return awaited


class _Part(NamedTuple):
    """Who wrote a part of memory last, if anybody did, and who read it since."""

    writer: tuple[int, ...]
    readers: list[int]


class _Allocation:
    """The parts of an allocation, in their order; the last one has no end."""

    def __init__(self) -> None:
        """Begin with one part that nobody used."""
        self._starts = [0]
        self._parts = [_Part((), [])]

    def read(self, part: Slice, number: int) -> list[int]:
        """Return which thunks one that reads waits for."""
        first, last = self._cut(part)
        before: list[int] = []
        for found in self._parts[first:last]:
            before += found.writer
            found.readers.append(number)
        return before

    def write(self, part: Slice, number: int) -> list[int]:
        """Return which thunks one that writes waits for; whoever comes later waits for it alone."""
        first, last = self._cut(part)
        before: list[int] = []
        for found in self._parts[first:last]:
            before += [*found.writer, *found.readers]
        self._starts[first:last] = [part.offset]
        self._parts[first:last] = [_Part((number,), [])]
        return before

    def _cut(self, part: Slice) -> tuple[int, int]:
        """Return the first part of a slice, and the one behind it; they begin where it does."""
        end = part.offset + part.size
        self._cut_at(part.offset)
        self._cut_at(end)
        return bisect_left(self._starts, part.offset), bisect_left(self._starts, end)

    def _cut_at(self, offset: int) -> None:
        at = bisect_right(self._starts, offset) - 1
        if self._starts[at] != offset:
            whole = self._parts[at]
            self._starts.insert(at + 1, offset)
            self._parts.insert(at + 1, _Part(whole.writer, [*whole.readers]))
