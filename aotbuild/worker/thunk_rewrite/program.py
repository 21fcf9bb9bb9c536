"""The optimized program inside a serialized CPU executable, and how to shrink it.

XLA:CPU serializes the optimized HLO module beside the machine code, and rebuilds it three times
when it loads an executable: most of the time of loading. What runs is a list of thunks, which name
compiled functions and slices of buffers. Of the module they need only the instructions that own a
buffer. They need the body of a fusion only if a library such as YNN compiles it at run time; such a
fusion is of kind kCustom. So every other fusion becomes an opaque custom call with the same number,
name, shape and operands, and whatever nothing refers to any more is dropped: bodies, buffers inside
them, metadata.

Numbers of fields are those of xla/service/cpu/executable.proto, xla/service/hlo.proto and
xla/pjrt/proto/compile_options.proto. Tried on jaxlib 0.10.2, 0.11.2, 0.12.0 and 0.12.0.1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial
from math import prod

from packaging.version import InvalidVersion, Version

from aotbuild.format.protobuf import (
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

# The format is known from the first version on, and before the second.
KNOWN = "0.10.2", "0.13"
# Elements of all arrays in a cheap fusion: it takes some microseconds, as starting a thread does.
_CHEAP_ELEMENTS = 2048

# In the message behind the head: the compilation result.
RESULT = 1
# CompilationResultProto: the module in its configuration, the buffers, the sequence of thunks.
MODULE_PATH = 1, 1
_ASSIGNMENT, SEQUENCE = 2, 6
# HloModuleProto.
_COMPUTATIONS, _ENTRY, _SCHEDULE = 3, 6, 7
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

_ONLY_FOR_PEOPLE = {_METADATA, _ATTRIBUTES, _STATISTICS, _ORIGINAL}
_KEPT_OF_OPAQUE = {_NAME, _SHAPE, _ID, _OPERANDS, _PREDECESSORS}
_OPAQUE_TARGET = bytes_field(_TARGET, b"aotbuild$compiled")


def is_known(jaxlib: str) -> bool:
    """Return whether the format of a jaxlib's executables is known."""
    try:
        version = Version(jaxlib)
    except InvalidVersion:
        return False
    first, end = map(Version, KNOWN)
    return first <= version and version.release < end.release


def split(data: bytes) -> tuple[bytes, bytes]:
    """Return the head of a serialized executable and the message behind it."""
    size, at = varint(data, 0)
    return data[: at + size], data[at + size :]


def module_of(result: bytes) -> bytes:
    """Return the HLO module in a compilation result."""
    with_config, module = MODULE_PATH
    return bytes_of(bytes_of(result, with_config), module)


def shrink_program(data: bytes, jaxlib: str, keep: Collection[int] = ()) -> bytes | None:
    """Return an executable without the parts of its program that no thunk needs.

    None where the format is not known, or nothing becomes shorter. Fusions whose numbers are in
    `keep` keep their bodies, see `fusions`.
    """
    if not is_known(jaxlib):
        return None
    try:
        head, body = split(data)
        shrunk = head + replaced(body, [RESULT], _shrink_result(bytes_of(body, RESULT), keep))
    except Malformed:
        return None
    return shrunk if len(shrunk) < len(data) else None


def fusions(data: bytes) -> list[int]:
    """Return the numbers of the fusions that lose their bodies, those that compute most first."""
    module = module_of(bytes_of(split(data)[1], RESULT))
    computations = messages_of(module, _COMPUTATIONS)
    work = {
        number_of(computation, _COMPUTATION_ID): sum(
            map(_elements, messages_of(computation, _INSTRUCTIONS))
        )
        for computation in computations
    }
    found = [
        (sum(work[number] for number in numbers_of(item, _CALLED)), number_of(item, _ID))
        for computation in computations
        for item in messages_of(computation, _INSTRUCTIONS)
        if _loses_body(item)
    ]
    return [number for _, number in sorted(found, reverse=True)]


def cheap_instructions(module: bytes) -> frozenset[bytes]:
    """Return the names of instructions that take next to no time if their arrays are small.

    A custom call is none of them, and neither is a fusion that lost its body: what they run is not
    known.
    """
    computations = {
        number_of(computation, _COMPUTATION_ID): messages_of(computation, _INSTRUCTIONS)
        for computation in messages_of(module, _COMPUTATIONS)
    }
    cheap = {number for number, inside in computations.items() if _is_cheap(inside)}

    def takes_no_time(instruction: bytes) -> bool:
        opcode, called = bytes_of(instruction, _OPCODE), numbers_of(instruction, _CALLED)
        if opcode == b"fusion":
            return cheap.issuperset(called)
        return not called and opcode != b"custom-call"

    return frozenset(
        bytes_of(instruction, _NAME)
        for instructions in computations.values()
        for instruction in instructions
        if takes_no_time(instruction)
    )


def _is_cheap(instructions: list[bytes]) -> bool:
    """Return whether a computation has few elements and runs nothing else for each of them."""
    for instruction in instructions:
        if numbers_of(instruction, _CALLED) and bytes_of(instruction, _OPCODE) != b"reduce":
            return False
    return sum(map(_elements, instructions)) <= _CHEAP_ELEMENTS


def _elements(instruction: bytes) -> int:
    return prod(numbers_of(bytes_of(instruction, _SHAPE), _DIMENSIONS))


def _shrink_result(result: bytes, keep: Collection[int]) -> bytes:
    module, assignment = module_of(result), bytes_of(result, _ASSIGNMENT)
    if not number_of(module, _ENTRY) or not bytes_of(module, _SCHEDULE):
        msg = "a program without an entry or a schedule"
        raise Malformed(msg)
    module = _shrink_module(module, keep, _constants(assignment))
    left = {
        number_of(instruction, _ID)
        for computation in messages_of(module, _COMPUTATIONS)
        for instruction in messages_of(computation, _INSTRUCTIONS)
    }
    result = replaced(result, MODULE_PATH, module)
    return replaced(result, [_ASSIGNMENT], _shrink_assignment(assignment, left))


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


def _shrink_module(module: bytes, keep: Collection[int], constants: set[int]) -> bytes:
    computations: dict[int, bytes] = {}
    # XLA looks for the value of every constant, also of those inside what a fusion calls.
    roots = [number_of(module, _ENTRY)]
    for computation in messages_of(module, _COMPUTATIONS):
        number = number_of(computation, _COMPUTATION_ID)
        computations[number] = changed(computation, partial(_shrink_instruction, keep))
        instructions = messages_of(computation, _INSTRUCTIONS)
        if any(number_of(instruction, _ID) in constants for instruction in instructions):
            roots.append(number)
    live = _reachable(roots, computations)

    def change_schedule(entry: Field) -> bytes | None:
        # An entry of a map: its key is the computation.
        return None if number_of(entry.message, 1) in live else b""

    def change(field: Field) -> bytes | None:
        if field.number == _COMPUTATIONS:
            number = number_of(field.message, _COMPUTATION_ID)
            return bytes_field(_COMPUTATIONS, computations[number]) if number in live else b""
        if field.number == _SCHEDULE:
            return bytes_field(_SCHEDULE, changed(field.message, change_schedule))
        return None

    return changed(module, change)


def _shrink_instruction(keep: Collection[int], field: Field) -> bytes | None:
    """Change a field of a computation: an instruction loses what no thunk needs of it."""
    if field.number != _INSTRUCTIONS:
        return None
    instruction = field.message
    if _loses_body(instruction) and number_of(instruction, _ID) not in keep:
        return bytes_field(_INSTRUCTIONS, changed(instruction, _make_opaque) + _OPAQUE_TARGET)
    return bytes_field(
        _INSTRUCTIONS,
        changed(instruction, lambda part: b"" if part.number in _ONLY_FOR_PEOPLE else None),
    )


def _loses_body(instruction: bytes) -> bool:
    is_fusion = bytes_of(instruction, _OPCODE) == b"fusion"
    return is_fusion and bytes_of(instruction, _FUSION_KIND) != b"kCustom"


def _make_opaque(field: Field) -> bytes | None:
    if field.number == _OPCODE:
        return bytes_field(_OPCODE, b"custom-call")
    return None if field.number in _KEPT_OF_OPAQUE else b""


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


def _shrink_assignment(assignment: bytes, instructions: set[int]) -> bytes:
    """Return the buffers of the instructions that are left; allocations stay as they were."""
    buffers = {
        number_of(buffer, _BUFFER_ID)
        for buffer in messages_of(assignment, _BUFFERS)
        if number_of(bytes_of(buffer, _DEFINED_AT), _INSTRUCTION) in instructions
    }

    def only_left(numbers: Iterable[int]) -> bytes | None:
        return None if buffers.issuperset(numbers) else b""

    def change_allocation(field: Field) -> bytes | None:
        return only_left([number_of(field.message, 1)]) if field.number == _ASSIGNED else None

    def change(field: Field) -> bytes | None:
        if field.number == _BUFFERS:
            return only_left([number_of(field.message, _BUFFER_ID)])
        if field.number == _ALLOCATIONS:
            return bytes_field(_ALLOCATIONS, changed(field.message, change_allocation))
        if field.number == _LIVE:
            return only_left(numbers_of(field.message, 2))
        return None

    return changed(assignment, change)
