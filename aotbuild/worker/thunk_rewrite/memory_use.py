"""Which memory each thunk reads and writes, and where a sequence of thunks has barriers.

Numbers of fields are those of xla/backends/cpu/runtime/thunk.proto.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import NamedTuple

from aotbuild.format.protobuf import Malformed, bytes_of, fields, messages_of, number_of

# Longer sequences get no groups, as finding barriers would take seconds: in thunks, and in users of
# parts of memory.
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


def barriers(uses: Sequence[Uses], uncounted: Collection[int] = ()) -> list[int]:
    """Return the thunks before which every earlier thunk must finish, by number.

    Thunks in `uncounted` do not count, on either side. In rising order, without the first; none if
    the sequence is too long.
    """
    awaited = _awaited(uses)
    ignored = sum(1 << number for number in uncounted)
    found = []
    lowest = len(awaited)
    for number in range(len(awaited) - 1, 0, -1):
        missing = ~(awaited[number] | ignored) & ((1 << number) - 1)
        if missing and number not in uncounted:
            lowest = min(lowest, (missing & -missing).bit_length() - 1)
        if lowest >= number:
            found.append(number)
    return found[::-1]


def _awaited(program: Sequence[Uses]) -> list[int]:
    """Return for each thunk those it waits for, also through others: a bit for each.

    An empty list if the sequence is too long.
    """
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
    """The thunk that wrote a part of memory last, if any did, and those that read it since."""

    writer: tuple[int, ...]
    readers: list[int]


class _Allocation:
    """The parts of an allocation, in order; the last one has no end."""

    def __init__(self) -> None:
        """Begin with one part that no thunk used."""
        self._starts = [0]
        self._parts = [_Part((), [])]

    def read(self, part: Slice, number: int) -> list[int]:
        """Return the thunks that a reader of this part waits for."""
        first, last = self._cut(part)
        before: list[int] = []
        for found in self._parts[first:last]:
            before += found.writer
            found.readers.append(number)
        return before

    def write(self, part: Slice, number: int) -> list[int]:
        """Return the thunks that a writer of this part waits for; later ones wait for it alone."""
        first, last = self._cut(part)
        before: list[int] = []
        for found in self._parts[first:last]:
            before += [*found.writer, *found.readers]
        self._starts[first:last] = [part.offset]
        self._parts[first:last] = [_Part((number,), [])]
        return before

    def _cut(self, part: Slice) -> tuple[int, int]:
        """Cut parts to fit a slice; return the numbers of its first part and the one behind it."""
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


# ThunkSequenceProto, ThunkProto and CallThunkProto.
THUNKS = 1
KIND, INFO, CALL, LOOP, KERNEL, COPY = 1, 2, 3, 10, 11, 12
CALLED = 1
# InfoProto: of the instruction, and of its module the name and number.
NAME, MODULE = 1, (2, 3)
# BufferAllocationSliceProto: offset, size, allocation, type of elements.
_OFFSET, _SIZE, _ALLOCATION, _ELEMENTS = 1, 2, 3, 4


class _Fields(NamedTuple):
    """Fields of a kind of thunk: slices it reads and writes, sequences inside, and all others.

    If `slice` is not 0, each slice is inside a message with its shape, in the field of that number.
    """

    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    slice: int = 0
    inside: tuple[int, ...] = ()
    others: tuple[int, ...] = ()


_KINDS = {
    CALL: _Fields(inside=(CALLED,)),
    4: _Fields(reads=(2,), inside=(1,)),  # conditional
    5: _Fields(writes=(5,), slice=2, others=(1, 2, 3, 4)),  # sort, in place
    7: _Fields(reads=(2, 3), writes=(4,), slice=2, others=(1,)),  # dot
    8: _Fields(writes=(2,), others=(1,)),  # state of a generator
    9: _Fields(reads=(4,), writes=(5, 6), others=(1, 2, 3)),  # top k
    LOOP: _Fields(writes=(4,), inside=(1, 2), others=(3,)),  # while
    KERNEL: _Fields(reads=(5,), writes=(6,), slice=1, others=(1, 2, 3, 4)),  # kernel
    COPY: _Fields(reads=(1,), writes=(2,), slice=2),  # copy
    13: _Fields(reads=(4,), writes=(5,), slice=2, others=(1, 2, 3)),  # fft
    17: _Fields(reads=(4, 5), writes=(6,), slice=2, others=(1, 2, 3, 7)),  # convolution
    19: _Fields(writes=(1,)),  # number of a partition
    20: _Fields(writes=(1,)),  # number of a replica
    21: _Fields(reads=(3,), writes=(4,), slice=2, others=(1, 2)),  # YNN
}
# A custom call has its slices in a message of their own.
_CUSTOM, _CUSTOM_SLICES = 16, 4
_OF_CUSTOM = _Fields(reads=(1,), writes=(2,), slice=2, others=(3,))
_OTHERS_OF_CUSTOM = {1, 2, 3, _CUSTOM_SLICES}


def kind_of(thunk: bytes) -> int:
    """Return the field that says what kind a thunk is; Malformed if it has none, or several."""
    found = [field.number for field in fields(thunk) if field.number not in (KIND, INFO)]
    if len(found) != 1:
        msg = f"a thunk of kinds {found}"
        raise Malformed(msg)
    return found[0]


def uses_of(thunk: bytes) -> Uses:
    """Return the memory that a thunk uses; Malformed if it has an unknown kind or field."""
    kind = kind_of(thunk)
    body = bytes_of(thunk, kind)
    if kind == _CUSTOM:
        _refuse_others(body, _OTHERS_OF_CUSTOM)
        return _uses(bytes_of(body, _CUSTOM_SLICES), _OF_CUSTOM)
    if kind not in _KINDS:
        msg = f"a thunk of kind {kind}"
        raise Malformed(msg)
    return _uses(body, _KINDS[kind])


def name_of(thunk: bytes) -> bytes:
    """Return the name of the instruction that a thunk runs."""
    return bytes_of(bytes_of(thunk, INFO), NAME)


def sequences_of(kind: int) -> tuple[int, ...]:
    """Return the fields of a kind of thunk that hold sequences of other thunks."""
    return _KINDS[kind].inside if kind in _KINDS else ()


def thunks_of(sequence: bytes) -> list[bytes]:
    """Return the thunks of a sequence; Malformed if the sequence has any other field."""
    _refuse_others(sequence, {THUNKS})
    return messages_of(sequence, THUNKS)


def _uses(body: bytes, known: _Fields) -> Uses:
    _refuse_others(body, {*known.reads, *known.writes, *known.inside, *known.others})
    inside = [
        uses_of(thunk)
        for field in known.inside
        for sequence in messages_of(body, field)
        for thunk in thunks_of(sequence)
    ]
    return Uses(
        (
            *_slices(body, known.reads, known.slice),
            *(part for uses in inside for part in uses.reads),
        ),
        (
            *_slices(body, known.writes, known.slice),
            *(part for uses in inside for part in uses.writes),
        ),
    )


def _slices(body: bytes, numbers: tuple[int, ...], around: int) -> list[Slice]:
    messages = [message for number in numbers for message in messages_of(body, number)]
    return [_slice(bytes_of(message, around) if around else message) for message in messages]


def _slice(message: bytes) -> Slice:
    _refuse_others(message, {_OFFSET, _SIZE, _ALLOCATION, _ELEMENTS})
    size = number_of(message, _SIZE)
    if size == 0:
        # XLA has rules of its own for comparing empty slices.
        msg = "a slice without a size"
        raise Malformed(msg)
    return Slice(number_of(message, _ALLOCATION), number_of(message, _OFFSET), size)


def _refuse_others(message: bytes, known: set[int]) -> None:
    others = {field.number for field in fields(message)} - known
    if others:
        msg = f"unknown fields {sorted(others)}"
        raise Malformed(msg)
