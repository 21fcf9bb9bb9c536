"""Put thunks into groups, so that XLA compares fewer of them when it loads an executable."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod

from aotbuild.spec.protobuf import (
    Field,
    Malformed,
    bytes_field,
    bytes_of,
    changed,
    messages_of,
    number_of,
    numbers_of,
    replaced,
    varint,
)
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
from aotbuild.worker.thunk_rewrite.program import is_known

# Elements of all arrays in a fusion: some microseconds, what a thread takes to begin.
_FEW_ELEMENTS = 2048
# HloModuleProto, HloComputationProto, HloInstructionProto, ShapeProto.
_COMPUTATIONS = 3
_INSTRUCTIONS, _COMPUTATION_ID = 2, 5
_NAME, _OPCODE, _SHAPE, _CALLED = 1, 2, 3, 38
_DIMENSIONS = 3


def brief_instructions(module: bytes) -> frozenset[bytes]:
    """Return the names of instructions that, given small arrays, are done at once."""
    computations = {
        number_of(computation, _COMPUTATION_ID): messages_of(computation, _INSTRUCTIONS)
        for computation in messages_of(module, _COMPUTATIONS)
    }
    brief = {number for number, inside in computations.items() if _is_short(inside)}
    return frozenset(
        bytes_of(instruction, _NAME)
        for instructions in computations.values()
        for instruction in instructions
        if _brief_is_brief(instruction, brief)
    )


def _brief_is_brief(instruction: bytes, brief: set[int]) -> bool:
    opcode = bytes_of(instruction, _OPCODE)
    called = numbers_of(instruction, _CALLED)
    if opcode == b"fusion":
        return brief.issuperset(called)
    # What a custom call does, nobody can tell; so it is with a fusion that lost its program.
    return not called and opcode != b"custom-call"


def _is_short(inside: list[bytes]) -> bool:
    """Return whether a computation has few elements and runs nothing else for each of them."""
    elements = 0
    for instruction in inside:
        if numbers_of(instruction, _CALLED) and bytes_of(instruction, _OPCODE) != b"reduce":
            return False
        elements += prod(numbers_of(bytes_of(instruction, _SHAPE), _DIMENSIONS))
    return elements <= _FEW_ELEMENTS


# Of the executable, see `program`: what it wraps; in that the module, and the sequence of thunks.
_RESULT, _MODULE, _SEQUENCE = 1, 1, 6

# Thunks in a group, at least. XLA runs 8 or fewer one after another, whatever they wait for:
# ThunkExecutor::Options in xla/backends/cpu/runtime/thunk_executor.h. From 12 to 32 loaded fastest.
_FEWEST = 16
# The other bound of the same options: with no more bytes than this threads are too dear. In loops
# it is this one since jaxlib 0.12.0, as its wheels were seen to do; a group would go by the first.
_FEW_BYTES = 512
_FEW_BYTES_IN_LOOPS = 64 * 1024
# Of fewer thunks XLA makes its graph in 0.2 ms.
_MANY = 64
# What profiles show.
_GROUP = bytes_field(NAME, b"aotbuild$group")


def with_groups(data: bytes, jaxlib: str) -> bytes:
    """Return the bytes of an executable with groups; as they are where nobody knows them."""
    if not is_known(jaxlib):
        return data
    try:
        size, at = varint(data, 0)
        head, body = data[: at + size], data[at + size :]
        result = bytes_of(body, _RESULT)
        sequence = bytes_of(result, _SEQUENCE)
        if not sequence:
            return data
        brief = brief_instructions(bytes_of(bytes_of(result, _MODULE), _MODULE))
        return head + replaced(body, [_RESULT, _SEQUENCE], nested(sequence, brief))
    except Malformed:
        return data


def nested(sequence: bytes, brief: Collection[bytes] = (), *, in_order: int = 0) -> bytes:
    """Return a sequence of thunks with groups, also inside of loops.

    XLA may run it in its own order if no thunk uses more bytes than `in_order`; then it has none.

    It stays as it is where that gains nothing; Malformed where it has what nobody here knows. In
    `brief` are the names of instructions that take next to no time on small arrays.
    """
    thunks = [_with_groups_inside(thunk, brief) for thunk in thunks_of(sequence)]
    if len(thunks) >= _MANY:
        program = [uses_of(thunk) for thunk in thunks]
        uncounted = {
            number
            for number, thunk in enumerate(thunks)
            if _is_small(program[number : number + 1]) and _is_brief(thunk, brief)
        }
        places = [] if _is_small(program, in_order) else barriers(program, uncounted)
        groups = _groups(program, places)
        if len(groups) > 1:
            thunks = [_call(thunks[first:end]) for first, end in groups]
    return b"".join(bytes_field(THUNKS, thunk) for thunk in thunks)


def _is_brief(thunk: bytes, brief: Collection[bytes]) -> bool:
    kind = kind_of(thunk)
    return kind == COPY or (kind == KERNEL and name_of(thunk) in brief)


def _is_small(program: Sequence[Uses], few: int = _FEW_BYTES) -> bool:
    """Return whether XLA runs these thunks one after another, because none uses many bytes."""
    return all(part.size <= few for uses in program for part in (*uses.reads, *uses.writes))


def _with_groups_inside(thunk: bytes, brief: Collection[bytes]) -> bytes:
    """Return a thunk whose own sequences, as the body of a loop, have groups."""
    kind = kind_of(thunk)
    inside = sequences_of(kind)
    in_order = _FEW_BYTES_IN_LOOPS if kind == LOOP else 0

    def change(field: Field) -> bytes | None:
        if field.number not in inside:
            return None
        return bytes_field(field.number, nested(field.message, brief, in_order=in_order))

    return replaced(thunk, [kind], changed(bytes_of(thunk, kind), change)) if inside else thunk


def _groups(program: Sequence[Uses], places: Sequence[int]) -> list[tuple[int, int]]:
    """Return where each group begins and ends, at some of the places; together they are all."""
    ends: list[int] = []
    first = 0
    for end in places:
        if end - first >= _FEWEST and not _is_small(program[first:end]):
            ends.append(end)
            first = end
    if ends and (len(program) - first < _FEWEST or _is_small(program[first:])):
        ends.pop()
    ends.append(len(program))
    return list(zip([0, *ends], ends, strict=False))


def _info_of_group(field: Field) -> bytes | None:
    if field.number == NAME:
        return _GROUP
    return None if field.number in MODULE else b""


def _call(group: Sequence[bytes]) -> bytes:
    """Return a thunk that runs a group, of the same module as its first."""
    sequence = b"".join(bytes_field(THUNKS, thunk) for thunk in group)
    info = changed(bytes_of(group[0], INFO), _info_of_group)
    return (
        bytes_field(KIND, b"call")
        + bytes_field(INFO, info)
        + bytes_field(CALL, bytes_field(CALLED, sequence))
    )
