"""Put thunks into groups, so that XLA compares fewer of them when it loads an executable."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import accumulate

from aotbuild.format.protobuf import Field, Malformed, bytes_field, bytes_of, changed, replaced
from aotbuild.worker.thunk_rewrite.memory_use import (
    CALL,
    CALLED,
    COPY,
    INFO,
    KERNEL,
    KIND,
    LOOP,
    MODULE,
    NAME,
    THUNKS,
    Uses,
    barriers,
    kind_of,
    name_of,
    sequences_of,
    thunks_of,
    uses_of,
)
from aotbuild.worker.thunk_rewrite.program import (
    RESULT,
    SEQUENCE,
    cheap_instructions,
    is_known,
    module_of,
    split,
)

# Thunks in a group, at least. XLA runs 8 or fewer one after another, whatever they wait for:
# ThunkExecutor::Options in xla/backends/cpu/runtime/thunk_executor.h. From 12 to 32 loaded fastest.
_FEWEST = 16
# The other limit of the same options, in bytes: XLA starts no thread if each thunk uses at most so
# many. In loops it is the second one since jaxlib 0.12.0, as its wheels were seen to do; for a
# group in a loop it would be the first.
_FEW_BYTES = 512
_FEW_BYTES_IN_LOOPS = 64 * 1024
# XLA compares fewer thunks in less than 0.2 ms.
_MANY = 64
# What profiles show.
_GROUP = bytes_field(NAME, b"aotbuild$group")


def group_thunks(data: bytes, jaxlib: str) -> bytes:
    """Return an executable with its thunks in groups; `data` where the format is not known."""
    if not is_known(jaxlib):
        return data
    try:
        head, body = split(data)
        result = bytes_of(body, RESULT)
        sequence = bytes_of(result, SEQUENCE)
        if not sequence:
            return data
        cheap = cheap_instructions(module_of(result))
        return head + replaced(body, [RESULT, SEQUENCE], grouped(sequence, cheap))
    except Malformed:
        return data


def grouped(sequence: bytes, cheap: Collection[bytes] = (), *, in_order: int = 0) -> bytes:
    """Return a sequence of thunks with groups, also in the bodies of loops.

    `cheap` holds the names of instructions that take next to no time on small arrays. XLA runs the
    sequence in order if no thunk uses more bytes than `in_order`; then it gets no groups. Neither
    does a sequence for which groups save nothing. Malformed if it has something unknown.
    """
    thunks = [_with_groups_inside(thunk, cheap) for thunk in thunks_of(sequence)]
    if len(thunks) >= _MANY:
        uses = [uses_of(thunk) for thunk in thunks]
        uncounted = {
            number
            for number, thunk in enumerate(thunks)
            if _is_small(uses[number : number + 1]) and _is_cheap(thunk, cheap)
        }
        places = [] if _is_small(uses, in_order) else barriers(uses, uncounted)
        spans = _spans(uses, places)
        if len(spans) > 1:
            thunks = [_call(thunks[first:end]) for first, end in spans]
    return b"".join(bytes_field(THUNKS, thunk) for thunk in thunks)


def _is_cheap(thunk: bytes, cheap: Collection[bytes]) -> bool:
    kind = kind_of(thunk)
    return kind == COPY or (kind == KERNEL and name_of(thunk) in cheap)


def _is_small(uses: Sequence[Uses], few: int = _FEW_BYTES) -> bool:
    """Return whether XLA runs these thunks in order, as none uses more bytes than `few`."""
    return all(part.size <= few for each in uses for part in (*each.reads, *each.writes))


def _with_groups_inside(thunk: bytes, cheap: Collection[bytes]) -> bytes:
    """Return a thunk whose own sequences, such as the body of a loop, have groups."""
    kind = kind_of(thunk)
    inside = sequences_of(kind)
    in_order = _FEW_BYTES_IN_LOOPS if kind == LOOP else 0

    def change(field: Field) -> bytes | None:
        if field.number not in inside:
            return None
        return bytes_field(field.number, grouped(field.message, cheap, in_order=in_order))

    return replaced(thunk, [kind], changed(bytes_of(thunk, kind), change)) if inside else thunk


def _spans(uses: Sequence[Uses], places: Sequence[int]) -> list[tuple[int, int]]:
    """Return where each group begins and ends, at some of the places; no thunk is in none."""
    ends: list[int] = []
    first = 0
    # How many are large before each thunk: looking at all since the last end again is quadratic.
    large = [0, *accumulate(not _is_small((each,)) for each in uses)]
    for end in places:
        if end - first >= _FEWEST and large[first] < large[end]:
            ends.append(end)
            first = end
    if ends and (len(uses) - first < _FEWEST or large[first] == large[-1]):
        ends.pop()
    ends.append(len(uses))
    return list(zip([0, *ends], ends, strict=False))


def _call(group: Sequence[bytes]) -> bytes:
    """Return a call thunk that runs a group, in the module of the group's first thunk."""
    sequence = b"".join(bytes_field(THUNKS, thunk) for thunk in group)

    def change(field: Field) -> bytes | None:
        if field.number == NAME:
            return _GROUP
        return None if field.number in MODULE else b""

    info = changed(bytes_of(group[0], INFO), change)
    return (
        bytes_field(KIND, b"call")
        + bytes_field(INFO, info)
        + bytes_field(CALL, bytes_field(CALLED, sequence))
    )
