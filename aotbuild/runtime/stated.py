"""What a serialized CPU executable states of itself, read from its bytes before XLA has them.

The shapes of the program, what it takes the memory of, and the names of the functions that need to
be known: none takes more than some microseconds. XLA reads more spellings of a message than it
writes; those that it never writes are refused, lest something hide in them. `stated_check` compares
what is found with a record.

Numbers of fields are those of xla/service/cpu/executable.proto, xla/service/hlo.proto and
xla/xla_data.proto. Tried on jaxlib 0.10.2 and 0.12.0.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from aotbuild.errors import DamagedBlob
from aotbuild.format.record import Record
from aotbuild.format.target import HOST

# The format is known before this version; the bytes of a later one are not looked into.
_UNKNOWN = (0, 13)
# Behind the head: the compilation result, and in it the module with its configuration.
_CONFIGURED = 1, 1
# HloModuleProtoWithConfig and HloModuleConfigProto.
_MODULE, _CONFIGURATION = 1, 2
_REPLICAS, _PARTITIONS = 4, 5
# HloModuleProto and HloComputationProto.
_COMPUTATIONS, _PROGRAM_SHAPE, _ALIASES, _DONORS = 3, 4, 8, 18
_INSTRUCTIONS = 2
# HloInputOutputAliasProto and HloBufferDonorProto: their entries, and in these the parameter.
_ENTRIES, _ALIASED, _DONATED = 1, 2, 1
# ProgramShapeProto and ShapeProto.
_PARAMETERS, _RESULT = 1, 2
_ELEMENT_TYPE, _DIMENSIONS, _TUPLE_SHAPES = 2, 3, 4
# PrimitiveType.
_TUPLE, _TOKEN = 13, 17
# HloInstructionProto.
_CALLED = 28
_LAPACK, _CALLBACK = b"lapack_", b"xla_ffi_python_"
# Bytes of a computation or an instruction that are searched at once.
_LARGE = 1 << 16

# The type of the elements, and the sizes.
Shape: TypeAlias = tuple[int, tuple[int, ...]]
# Start and end of a message.
_Part: TypeAlias = tuple[int, int]


@dataclass(frozen=True)
class Stated:
    """What an executable takes and returns, on each of how many devices, and what it calls.

    `donated` are the positions of inputs whose memory it takes. `python` is the first host
    callback, `lapack` the first function of LAPACK, empty without one.
    """

    devices: int
    inputs: list[Shape]
    outputs: list[Shape]
    donated: list[int]
    python: str
    lapack: str


def read_stated(record: Record, data: bytes) -> Stated | None:
    """Return what the executable of a record states; None for other platforms and other formats.

    Raises DamagedBlob if the bytes are not what this version of jaxlib writes.
    """
    if record.target.platform != HOST or not _is_known(record.requires.jaxlib):
        return None
    try:
        module, configuration = _module(data)
        devices = _devices(data, configuration)
        inputs, outputs = _program(data, module)
        donated = _taken(data, module, inputs)
        return Stated(devices, _arrays(inputs), _arrays(outputs), donated, *_called(data, module))
    except (IndexError, ValueError) as err:
        expected = f"an executable of jaxlib {record.requires.jaxlib}"
        raise DamagedBlob(str(record), expected, f"what it does not write: {err}") from err


def _is_known(jaxlib: str | None) -> bool:
    """Return whether the format of a jaxlib's executables is known; None is any jaxlib."""
    try:
        return jaxlib is None or tuple(map(int, jaxlib.split(".")[:2])) < _UNKNOWN
    except ValueError:
        return False


# --- protocol buffers ---------------------------------------------------------------------------
# `format.protobuf` reads them whole, and importing it takes longer than all that is done here.


def _module(data: bytes) -> tuple[_Part, _Part]:
    """Return the module of an executable, and its configuration."""
    size, at = _varint(data, 0)
    part = at + size, len(data)
    for number in _CONFIGURED:
        part = _field(data, *part, number)
    return _field(data, *part, _MODULE), _field(data, *part, _CONFIGURATION)


def _devices(data: bytes, configuration: _Part) -> int:
    """Return how many devices a program runs on; a number that is absent or 0 is 1."""
    counts = {number: value for number, wire, value, _ in _walk(data, *configuration) if wire == 0}
    return (counts.get(_REPLICAS) or 1) * (counts.get(_PARTITIONS) or 1)


def _program(data: bytes, module: _Part) -> tuple[list[Shape], list[Shape]]:
    """Return the shapes of what a program takes and returns."""
    program = _field(data, *module, _PROGRAM_SHAPE)
    inputs = [_read_shape(data, *part) for part in _fields(data, *program, _PARAMETERS)]
    result = _field(data, *program, _RESULT)
    parts = list(_fields(data, *result, _TUPLE_SHAPES)) or [result]
    return inputs, [_read_shape(data, *part) for part in parts]


def _taken(data: bytes, module: _Part, inputs: list[Shape]) -> list[int]:
    """Return which arrays a program takes the memory of, by their positions among `_arrays`."""
    parameters = set[int]()
    for number, inside in ((_ALIASES, _ALIASED), (_DONORS, _DONATED)):
        # XLA appends the entries of a message that comes again.
        for part in _fields(data, *module, number):
            for entry in _fields(data, *part, _ENTRIES):
                parameters.add(_last_number(data, entry, inside))
    if not parameters <= {*range(len(inputs))}:
        msg = f"the memory of parameter {max(parameters)} of {len(inputs)}"
        raise ValueError(msg)
    return [len(_arrays(inputs[:number])) for number in sorted(parameters)]


def _last_number(data: bytes, part: _Part, wanted: int) -> int:
    """Return the last number under a number, which counts; 0 without one."""
    found = [
        value for number, wire, value, _ in _walk(data, *part) if (number, wire) == (wanted, 0)
    ]
    return found[-1] if found else 0


def _arrays(shapes: list[Shape]) -> list[Shape]:
    """Return shapes without tokens, which hold nothing, and without that of an empty result."""
    return [shape for shape in shapes if shape[0] not in (_TUPLE, _TOKEN)]


def _called(data: bytes, module: _Part) -> tuple[str, str]:
    """Return the first host callback and the first function of LAPACK that a program calls."""
    python = lapack = ""
    for instruction in _calls(data, module):
        for name in _fields(data, *instruction, _CALLED):
            python = python or _name(data, name, _CALLBACK)
            lapack = lapack or _name(data, name, _LAPACK)
    return python, lapack


def _calls(data: bytes, module: _Part) -> Iterator[_Part]:
    """Yield the instructions that may call one of these, those that hold a large constant too."""
    for computation in _fields(data, *module, _COMPUTATIONS):
        if _may_call(data, computation):
            for instruction in _fields(data, *computation, _INSTRUCTIONS):
                if _may_call(data, instruction):
                    yield instruction


def _may_call(data: bytes, part: _Part) -> bool:
    """Return whether a part has such a name somewhere; what is large is not searched, but read."""
    if part[1] - part[0] > _LARGE:
        return True
    return data.find(_CALLBACK, *part) >= 0 or data.find(_LAPACK, *part) >= 0


def _name(data: bytes, part: _Part, prefix: bytes) -> str:
    """Return the name in a part if it has a prefix, else an empty one."""
    start, end = part
    is_one = data[start : min(end, start + len(prefix))] == prefix
    return data[start:end].decode("ascii", "replace") if is_one else ""


def _read_shape(data: bytes, start: int, end: int) -> Shape:
    kind, sizes = 0, []
    for number, wire, value, stop in _walk(data, start, end):
        if number == _ELEMENT_TYPE and wire == 0:
            kind = value
        elif number == _DIMENSIONS and wire == 0:
            sizes.append(value)
        elif number == _DIMENSIONS and wire == 2:
            while value < stop:
                size, value = _varint(data, value)
                sizes.append(size)
            if value != stop:
                msg = "a size that ends behind its message"
                raise ValueError(msg)
    return kind, tuple(sizes)


def _field(data: bytes, start: int, end: int, wanted: int) -> _Part:
    """Return the message under a number; ValueError unless there is one, once.

    XLA merges those that come again.
    """
    found = list(_fields(data, start, end, wanted))
    if len(found) != 1:
        msg = f"{len(found)} messages under the number {wanted}"
        raise ValueError(msg)
    return found[0]


def _fields(data: bytes, start: int, end: int, wanted: int) -> Iterator[_Part]:
    """Yield the messages under a number."""
    for number, wire, value, stop in _walk(data, start, end):
        if number == wanted and wire == 2:
            yield value, stop


def _walk(data: bytes, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield (number, wire type, value or start, end) of the fields of a message.

    In place: `format.protobuf` copies each field, and executables are large.
    """
    while start < end:
        tag, start = _varint(data, start)
        wire, value = tag & 7, start
        if wire == 0:
            value, start = _varint(data, start)
        elif wire == 2:
            size, value = _varint(data, start)
            start = value + size
        elif wire in (1, 5):
            start += 8 if wire == 1 else 4
        else:
            msg = f"wire type {wire}"
            raise ValueError(msg)
        if start > end:
            msg = "a field that ends behind its message"
            raise ValueError(msg)
        yield tag >> 3, wire, value, start


def _varint(data: Any, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7
        if shift > 63:
            msg = "a number that does not end"
            raise ValueError(msg)
