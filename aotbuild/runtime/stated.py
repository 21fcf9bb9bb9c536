"""What a serialized CPU executable states of itself, compared with its record before XLA loads it.

jaxlib believes what it is told of results: a record that claims others than the executable returns
would make arrays over memory that is not theirs. It would also run native functions that nobody
initialized. So the shapes of the program are read from the bytes, and the names of the functions
that need to be known: neither takes more than some microseconds. XLA reads more spellings of a
message than it writes; those that it never writes are refused, lest something hide in them.

Numbers of fields are those of xla/service/cpu/executable.proto, xla/service/hlo.proto and
xla/xla_data.proto. Tried on jaxlib 0.10.2 and 0.12.0.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from aotbuild.errors import DamagedBlob, InvalidIndex
from aotbuild.frozen import dataclass
from aotbuild.spec.aval import Aval
from aotbuild.spec.record import PYTHON_CALL, PartitionSpec, Record
from aotbuild.spec.target import HOST

# The format is known before this version; the bytes of a later one are not looked into.
_UNKNOWN = (0, 13)
# Behind the head: the compilation result, and in it the module with its configuration.
_CONFIGURED = 1, 1
# HloModuleProtoWithConfig and HloModuleConfigProto.
_MODULE, _CONFIGURATION = 1, 2
_REPLICAS, _PARTITIONS = 4, 5
# HloModuleProto and HloComputationProto.
_COMPUTATIONS, _PROGRAM_SHAPE = 3, 4
_INSTRUCTIONS = 2
# ProgramShapeProto and ShapeProto.
_PARAMETERS, _RESULT = 1, 2
_ELEMENT_TYPE, _DIMENSIONS, _TUPLE_SHAPES = 2, 3, 4
_TUPLE, _TOKEN = 13, 17
# PrimitiveType, by the long names of dtypes.
_TYPES = {
    name: number
    for first, names in (
        (1, "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64"),
        (15, "complex64 bfloat16"),
        (18, "complex128 float8_e5m2 float8_e4m3fn int4 uint4 float8_e4m3b11fnuz"),
        (24, "float8_e5m2fnuz float8_e4m3fnuz int2 uint2 float8_e4m3 float8_e3m4"),
        (32, "float4_e2m1fn float8_e8m0fnu"),
    )
    for number, name in enumerate(names.split(), first)
}
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

    `python` is the first host callback, `lapack` the first function of LAPACK, empty without one.
    """

    devices: int
    inputs: list[Shape]
    outputs: list[Shape]
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
        return Stated(devices, *_stated_shapes(data, module), *_called(data, module))
    except (IndexError, ValueError) as err:
        expected = f"an executable of jaxlib {record.requires.jaxlib}"
        raise DamagedBlob(str(record), expected, f"what it does not write: {err}") from err


def check_stated(record: Record, stated: Stated | None) -> None:
    """Raise InvalidIndex if an executable takes, returns or calls something else than its record.

    Or if it is one for another number of devices. None is not compared.
    """
    if stated is None:
        return
    if stated.devices != record.requires.devices:
        raise _lie(record, "requires.devices", f"{stated.devices}", f"{record.requires.devices}")
    _check_calls(record, stated)
    calling = record.calling
    mesh, constants, leaves = dict(calling.mesh), calling.constants, record.signature.leaves
    specs = calling.in_specs or ((),) * len(leaves)
    # XLA chooses how a constant lies on several devices.
    places = [f"calling.constants[{index}]" for index in range(len(constants))]
    places += [f"signature.leaves[{index}]" for index in range(len(leaves))]
    shapes = [None if mesh else _shape(each.aval) for each in constants]
    shapes += [_shape(aval, spec, mesh) for aval, spec in zip(leaves, specs, strict=True)]
    kept = sorted(calling.kept)
    found = [shapes[index] for index in kept]
    _compare(record, "calling.kept", [places[index] for index in kept], found, stated.inputs)
    specs = calling.out_specs or ((),) * len(calling.outputs)
    found = [_shape(aval, s, mesh) for aval, s in zip(calling.outputs, specs, strict=True)]
    places = [f"calling.outputs[{index}]" for index in range(len(found))]
    _compare(record, "calling.outputs", places, found, stated.outputs)


def _check_calls(record: Record, stated: Stated) -> None:
    calls, python, lapack = record.requires.custom_calls, stated.python, stated.lapack
    if python and PYTHON_CALL not in calls:
        raise _lie(record, "calling.callbacks", f"that of {python}", "none")
    if lapack and not any(call.provider == "lapack" for call in calls):
        raise _lie(record, "requires.custom_calls", f"{lapack} of lapack", "none")


def _lie(record: Record, place: str, expected: str, found: str) -> InvalidIndex:
    return InvalidIndex(f"{record}: {place}", f"{expected}, as the executable has", found)


def _compare(
    record: Record,
    numbers: str,
    places: Sequence[str],
    found: Sequence[Shape | None],
    stated: Sequence[Shape],
) -> None:
    if len(found) != len(stated):
        raise _lie(record, numbers, f"{len(stated)} arrays", f"{len(found)}")
    for place, have, want in zip(places, found, stated, strict=True):
        if have is not None and have != want:
            each = " on each device" if record.calling.mesh else ""
            raise _lie(record, place, _text(want) + each, _text(have))


def _shape(
    aval: Aval, spec: PartitionSpec = (), mesh: dict[str, int] | None = None
) -> Shape | None:
    """Return the shape of an array on one device of a mesh; None if its dtype is not known."""
    if aval.dtype.startswith("key<"):
        from aotbuild.spec.golden import stored_shape  # few functions take keys

        aval = Aval(stored_shape(aval), "uint32")
    number = _TYPES.get(aval.dtype)
    if number is None:
        return None
    sizes = list(aval.shape)
    for index, axes in enumerate(spec):
        for axis in (axes,) if isinstance(axes, str) else axes or ():
            sizes[index] = -(-sizes[index] // (mesh or {})[axis])
    return number, tuple(sizes)


def _text(shape: Shape) -> str:
    names = {number: name for name, number in _TYPES.items()}
    number, sizes = shape
    return f"{names.get(number, f'type {number}')}[{','.join(map(str, sizes))}]"


def _is_known(jaxlib: str | None) -> bool:
    """Return whether the format of a jaxlib's executables is known; None is any jaxlib."""
    try:
        return jaxlib is None or tuple(map(int, jaxlib.split(".")[:2])) < _UNKNOWN
    except ValueError:
        return False


# --- protocol buffers ---------------------------------------------------------------------------
# `spec.protobuf` reads them whole, and importing it takes longer than all that is done here.


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


def _stated_shapes(data: bytes, module: _Part) -> tuple[list[Shape], list[Shape]]:
    """Return the shapes of the arrays that a program takes and returns."""
    program = _field(data, *module, _PROGRAM_SHAPE)
    inputs = [_read_shape(data, *part) for part in _fields(data, *program, _PARAMETERS)]
    result = _field(data, *program, _RESULT)
    parts = list(_fields(data, *result, _TUPLE_SHAPES)) or [result]
    return _arrays(inputs), _arrays([_read_shape(data, *part) for part in parts])


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

    In place: `spec.protobuf` copies each field, and executables are large.
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
