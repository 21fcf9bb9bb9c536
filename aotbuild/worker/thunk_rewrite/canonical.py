"""One sequence of bytes for one CPU executable, whatever its process compiled before.

XLA:CPU compiles parts of a program in threads, and serializes their object files in the order in
which they were finished. It counts the modules of a process, and writes the number of the module
into the program and into each thunk. Neither changes what runs: the linker finds functions by their
names, and a process that loads an executable gives its module a number of its own.

Before 0.11.2, XLA also writes the features of the CPU that compiled, all but those above the cap of
the level, and logs an error for each one that the loading CPU lacks, used or not. A record has the
features that the code does use, so these are left out, as they are in what 0.11.2 and later write.
"""

from __future__ import annotations

from aotbuild.format.protobuf import (
    Field,
    Malformed,
    bytes_field,
    bytes_of,
    changed,
    fields,
    replaced,
)
from aotbuild.worker.thunk_rewrite.memory_use import INFO, MODULE, THUNKS, kind_of, sequences_of
from aotbuild.worker.thunk_rewrite.program import (
    MODULE_PATH,
    RESULT,
    SEQUENCE,
    is_known,
    module_of,
    split,
)

# CompilationResultProto: object files, the machine, with features. HloModuleProto: the number.
_OBJECT_FILE, _MACHINE, _MODULE_ID, _FEATURES = 8, 9, 5, 3
# InfoProto of a thunk.
_MODULE_ID_OF_THUNK = MODULE[1]


def canonical(data: bytes, jaxlib: str) -> bytes:
    """Return an executable with its parts in one order, as if it were the first of its process.

    `data` where the format is not known.
    """
    if not is_known(jaxlib):
        return data
    try:
        head, body = split(data)
        return head + replaced(body, [RESULT], _result(bytes_of(body, RESULT)))
    except Malformed:
        return data


def _result(result: bytes) -> bytes:
    result = replaced(result, MODULE_PATH, _without(module_of(result), _MODULE_ID))
    if machine := bytes_of(result, _MACHINE):
        result = replaced(result, [_MACHINE], _without(machine, _FEATURES))
    sequence = bytes_of(result, SEQUENCE)
    if sequence:
        result = replaced(result, [SEQUENCE], _sequence(sequence))
    return _in_order(result)


def _in_order(result: bytes) -> bytes:
    """Return a compilation result with its object files in the order of their bytes."""
    files = iter(sorted(f.whole for f in fields(result) if f.number == _OBJECT_FILE))
    return changed(result, lambda field: next(files) if field.number == _OBJECT_FILE else None)


def _sequence(sequence: bytes) -> bytes:
    """Return a sequence of thunks without the module's number. With collectives, it has more."""

    def change(field: Field) -> bytes | None:
        return bytes_field(THUNKS, _thunk(field.message)) if field.number == THUNKS else None

    return changed(sequence, change)


def _thunk(thunk: bytes) -> bytes:
    """Return a thunk without the module's number, and so those in its own sequences."""
    kind = kind_of(thunk)
    inside = sequences_of(kind)

    def change_kind(field: Field) -> bytes | None:
        if field.number not in inside:
            return None
        return bytes_field(field.number, _sequence(field.message))

    thunk = replaced(thunk, [INFO], _without(bytes_of(thunk, INFO), _MODULE_ID_OF_THUNK))
    if not inside:
        return thunk
    return replaced(thunk, [kind], changed(bytes_of(thunk, kind), change_kind))


def _without(message: bytes, number: int) -> bytes:
    return changed(message, lambda field: b"" if field.number == number else None)
