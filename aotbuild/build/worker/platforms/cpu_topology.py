"""XLA's description of a CPU topology, made to say another CPU; protobuf's wire format by hand.

Nothing of this is published with jaxlib, so it is here as read from XLA's .proto files:
`PjRtTopologyDescriptionProto` (9: an Any), `CpuTopologyProto` (1: devices, 5: the machine) and
`TargetMachineOptionsProto` (1: triple, 2: cpu, 3: features). Tried on jaxlib 0.11.2 and 0.12.0.1.
"""

from __future__ import annotations

from collections.abc import Iterator

from aotbuild.errors import TraceRefused
from aotbuild.spec.isa import IsaLevel

_VARINT, _BYTES = 0, 2
# Number and content of a field; the content says which of the two wire types it has.
_Field = tuple[int, int | bytes]


def retarget(topology: bytes, level: IsaLevel, devices: int) -> bytes:
    """Return the topology of so many devices that are exactly of a level.

    TraceRefused if this jaxlib describes its CPU in another way than those that were tried.
    """
    try:
        return b"".join(
            _encode(number, _described(value, level, devices) if number == 9 else value)
            for number, value in _fields(topology)
        )
    except (ValueError, IndexError, KeyError) as err:
        msg = (
            f"jaxlib describes this machine's CPU in a way that aotbuild does not know ({err}); "
            f"{level.name} cannot be compiled for: use a jax that this aotbuild was tested with"
        )
        raise TraceRefused(msg) from err


def _described(any_message: int | bytes, level: IsaLevel, devices: int) -> bytes:
    """Return the Any, of which field 2 has the CPU's topology as bytes."""
    return b"".join(
        _encode(number, _cpu_topology(value, level, devices) if number == 2 else value)
        for number, value in _fields(any_message)
    )


def _cpu_topology(message: int | bytes, level: IsaLevel, devices: int) -> bytes:
    fields = list(_fields(message))
    here = dict(_fields(dict(fields)[5]))
    machine = [(1, here[1]), (2, level.llvm_cpu.encode()), (3, level.llvm_features.encode())]
    changed: list[_Field] = [(1, _encode(3, local)) for local in range(devices)]
    changed += [field for field in fields if field[0] not in (1, 5)]
    changed.append((5, b"".join(_encode(*field) for field in machine)))
    return b"".join(_encode(*field) for field in changed)


def _fields(message: int | bytes) -> Iterator[_Field]:
    if isinstance(message, int):
        msg = "a number where a message was expected"
        raise ValueError(msg)
    at = 0
    while at < len(message):
        key, at = _read_varint(message, at)
        value, at = _read_varint(message, at)
        if key & 7 == _VARINT:
            yield key >> 3, value
        elif key & 7 == _BYTES and at + value <= len(message):
            yield key >> 3, message[at : at + value]
            at += value
        else:
            msg = f"field {key >> 3} of wire type {key & 7}"
            raise ValueError(msg)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number and the place after it."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def _encode(number: int, content: int | bytes) -> bytes:
    if isinstance(content, int):
        # As protobuf does: a zero is not written.
        return _varint(number << 3 | _VARINT) + _varint(content) if content else b""
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
