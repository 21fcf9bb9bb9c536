"""Shrink the program inside a serialized executable for CPUs; its code stays as it is.

XLA:CPU serializes the optimized HLO module beside the machine code, and rebuilds it three times
when it loads: most of the time of loading. What runs is a list of thunks, which name compiled
functions and slices of buffers. Of the module they need the instructions that own a buffer, and the
body of a fusion only where a library compiles it at run time, as YNN does: its kind is kCustom.
So every other fusion becomes an opaque custom call of the same number, name, shape and operands,
and what nothing refers to any more is left out: bodies, buffers inside them, metadata.

Numbers of fields are those of xla/service/cpu/executable.proto, xla/service/hlo.proto and
xla/pjrt/proto/compile_options.proto. Tried on jaxlib 0.10.2, 0.11.2, 0.12.0 and 0.12.0.1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial
from math import prod

from aotbuild.build.startup import is_between
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

# What is known of the format: below the first nobody looked, and the last is yet to come.
_KNOWN = "0.10.2", "0.13"
# Of the executable, and of what it wraps.
_RESULT, _MODULE_WITH_CONFIG, _MODULE, _ASSIGNMENT = 1, 1, 1, 2
# HloModuleProto.
_COMPUTATIONS, _ENTRY, _SCHEDULE, _SEQUENCES = 3, 6, 7, 1
# HloComputationProto.
_INSTRUCTIONS, _COMPUTATION_ID = 2, 5
# HloInstructionProto.
_NAME, _OPCODE, _SHAPE, _METADATA, _FUSION_KIND, _TARGET = 1, 2, 3, 7, 11, 28
_ID, _OPERANDS, _PREDECESSORS, _CALLED = 35, 36, 37, 38
_ATTRIBUTES, _STATISTICS, _ORIGINAL = 68, 82, 88
# ShapeProto.
_DIMENSIONS = 3
# BufferAssignmentProto and LogicalBufferProto.
_BUFFERS, _ALLOCATIONS, _ASSIGNED, _IS_CONSTANT, _LIVE = 1, 3, 9, 12, 5
_BUFFER_ID, _DEFINED_AT, _INSTRUCTION = 1, 3, 4

_FOR_PEOPLE = {_METADATA, _ATTRIBUTES, _STATISTICS, _ORIGINAL}
_OF_OPAQUE = {_NAME, _SHAPE, _ID, _OPERANDS, _PREDECESSORS}
_OPAQUE = bytes_field(_TARGET, b"aotbuild$compiled")


def lean(data: bytes, jaxlib: str, whole: Collection[int] = ()) -> bytes | None:
    """Return the bytes of an executable without what nothing runs; None where nobody knows them.

    Fusions whose numbers are in `whole` keep their program, see `fusions`.
    """
    if not is_known(jaxlib):
        return None
    try:
        size, at = varint(data, 0)
        head, body = data[: at + size], data[at + size :]
        smaller = head + replaced(body, [_RESULT], _lean_result(bytes_of(body, _RESULT), whole))
    except Malformed:
        return None
    return smaller if len(smaller) < len(data) else None


def is_known(jaxlib: str) -> bool:
    """Return whether somebody looked at the format of executables of a jaxlib."""
    return is_between(jaxlib, *_KNOWN)


def fusions(data: bytes) -> list[int]:
    """Return the numbers of the fusions that lose their program, those that compute most first."""
    _, at = varint(data, 0)
    module = bytes_of(bytes_of(bytes_of(data[at:], _RESULT), _MODULE_WITH_CONFIG), _MODULE)
    computations = messages_of(module, _COMPUTATIONS)
    work = {number_of(item, _COMPUTATION_ID): _elements(item) for item in computations}
    found = [
        (sum(work[number] for number in numbers_of(item, _CALLED)), number_of(item, _ID))
        for computation in computations
        for item in messages_of(computation, _INSTRUCTIONS)
        if _loses_program(item)
    ]
    return [number for _, number in sorted(found, reverse=True)]


def _elements(computation: bytes) -> int:
    """Return how many elements all arrays of a computation have."""
    shapes = [bytes_of(item, _SHAPE) for item in messages_of(computation, _INSTRUCTIONS)]
    return sum(prod(numbers_of(shape, _DIMENSIONS)) for shape in shapes)


def _lean_result(result: bytes, whole: Collection[int]) -> bytes:
    module = bytes_of(bytes_of(result, _MODULE_WITH_CONFIG), _MODULE)
    if not number_of(module, _ENTRY) or not bytes_of(module, _SCHEDULE):
        msg = "a program without an entry or a schedule"
        raise Malformed(msg)
    assignment = bytes_of(result, _ASSIGNMENT)
    module = _lean_module(module, whole, _constants(assignment))
    instructions = (
        instruction
        for computation in messages_of(module, _COMPUTATIONS)
        for instruction in messages_of(computation, _INSTRUCTIONS)
    )
    kept = {number_of(instruction, _ID) for instruction in instructions}
    assignment = _lean_assignment(assignment, kept)
    result = replaced(result, [_MODULE_WITH_CONFIG, _MODULE], module)
    return replaced(result, [_ASSIGNMENT], assignment)


def _constants(assignment: bytes) -> set[int]:
    """Return the instructions whose values are in the allocations of constants."""
    buffers = {
        number_of(assigned, 1)
        for allocation in messages_of(assignment, _ALLOCATIONS)
        if number_of(allocation, _IS_CONSTANT)
        for assigned in messages_of(allocation, _ASSIGNED)
    }
    return {
        number_of(bytes_of(buffer, _DEFINED_AT), _INSTRUCTION)
        for buffer in messages_of(assignment, _BUFFERS)
        if number_of(buffer, _BUFFER_ID) in buffers
    }


def _lean_module(module: bytes, whole: Collection[int], constants: set[int]) -> bytes:
    computations: dict[int, bytes] = {}
    # XLA looks for the value of every constant, also of those inside what a fusion calls.
    roots = [number_of(module, _ENTRY)]
    for computation in messages_of(module, _COMPUTATIONS):
        number = number_of(computation, _COMPUTATION_ID)
        computations[number] = changed(computation, partial(_lean_instruction, whole))
        instructions = messages_of(computation, _INSTRUCTIONS)
        if any(number_of(instruction, _ID) in constants for instruction in instructions):
            roots.append(number)
    live = _reachable(roots, computations)

    def change(field: Field) -> bytes | None:
        if field.number == _COMPUTATIONS:
            number = number_of(field.message, _COMPUTATION_ID)
            return bytes_field(_COMPUTATIONS, computations[number]) if number in live else b""
        if field.number == _SCHEDULE:
            return bytes_field(_SCHEDULE, _lean_schedule(field.message, live))
        return None

    return changed(module, change)


def _lean_instruction(whole: Collection[int], field: Field) -> bytes | None:
    """Return a field of a computation, an instruction without what nothing needs of it."""
    if field.number != _INSTRUCTIONS:
        return None
    instruction = field.message
    if _loses_program(instruction) and number_of(instruction, _ID) not in whole:
        return bytes_field(_INSTRUCTIONS, changed(instruction, _opaque) + _OPAQUE)
    return bytes_field(
        _INSTRUCTIONS,
        changed(instruction, lambda part: b"" if part.number in _FOR_PEOPLE else None),
    )


def _loses_program(instruction: bytes) -> bool:
    is_fusion = bytes_of(instruction, _OPCODE) == b"fusion"
    return is_fusion and bytes_of(instruction, _FUSION_KIND) != b"kCustom"


def _opaque(field: Field) -> bytes | None:
    if field.number == _OPCODE:
        return bytes_field(_OPCODE, b"custom-call")
    return None if field.number in _OF_OPAQUE else b""


def _reachable(roots: Iterable[int], computations: dict[int, bytes]) -> set[int]:
    live: set[int] = set()
    left = list(roots)
    while left:
        number = left.pop()
        if number in live:
            continue
        if number not in computations:
            msg = f"a call of computation {number}, which is not there"
            raise Malformed(msg)
        live.add(number)
        for instruction in messages_of(computations[number], _INSTRUCTIONS):
            left += numbers_of(instruction, _CALLED)
    return live


def _lean_schedule(schedule: bytes, live: set[int]) -> bytes:
    """Return the order of instructions, of those computations that are left."""

    def change(field: Field) -> bytes | None:
        # An entry of a map: its key is the computation.
        return None if number_of(field.message, 1) in live else b""

    return changed(schedule, change)


def _lean_assignment(assignment: bytes, kept: set[int]) -> bytes:
    """Return the buffers of instructions that are left, in the allocations as they were."""
    buffers = {
        number_of(buffer, _BUFFER_ID)
        for buffer in messages_of(assignment, _BUFFERS)
        if number_of(bytes_of(buffer, _DEFINED_AT), _INSTRUCTION) in kept
    }

    def is_left(numbers: Iterable[int]) -> bytes | None:
        return None if buffers.issuperset(numbers) else b""

    def change_allocation(field: Field) -> bytes | None:
        if field.number != _ASSIGNED:
            return None
        return is_left([number_of(field.message, 1)])

    def change(field: Field) -> bytes | None:
        if field.number == _BUFFERS:
            return is_left([number_of(field.message, _BUFFER_ID)])
        if field.number == _ALLOCATIONS:
            return bytes_field(_ALLOCATIONS, changed(field.message, change_allocation))
        if field.number == _LIVE:
            return is_left(numbers_of(field.message, 2))
        return None

    return changed(assignment, change)
