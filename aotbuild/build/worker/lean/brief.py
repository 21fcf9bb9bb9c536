"""Find the instructions whose code takes next to no time, whatever it is given.

A kernel on few bytes may still compute for long: random numbers that it draws and adds up are in
no buffer. So what counts is how many elements the arrays inside of a fusion have.

Numbers of fields are those of xla/service/hlo.proto, as in `program`.
"""

from __future__ import annotations

from math import prod

from aotbuild.build.worker.protobuf import bytes_of, messages_of, number_of, numbers_of

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
        if _is_brief(instruction, brief)
    )


def _is_brief(instruction: bytes, brief: set[int]) -> bool:
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
