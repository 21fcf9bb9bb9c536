"""XLA's description of a CPU topology, made to say another CPU.

Nothing of this is published with jaxlib, so it is here as read from XLA's .proto files:
`PjRtTopologyDescriptionProto` (9: an Any, whose 2 is the message), `CpuTopologyProto` (1: devices,
each with its number in its process as 3; 5: the machine) and `TargetMachineOptionsProto`
(1: triple, 2: cpu, 3: features). Tried on jaxlib 0.11.2 and 0.12.0.1.
"""

from __future__ import annotations

from aotbuild.build.worker.protobuf import (
    Malformed,
    bytes_field,
    bytes_of,
    fields,
    number_field,
    replaced,
)
from aotbuild.errors import TraceRefused
from aotbuild.spec.isa import IsaLevel

_DESCRIBED, _MESSAGE = 9, 2
_DEVICE, _MACHINE, _LOCAL = 1, 5, 3
_TRIPLE, _CPU, _FEATURES = 1, 2, 3


def retarget(topology: bytes, level: IsaLevel, devices: int) -> bytes:
    """Return the topology of so many devices that are exactly of a level.

    TraceRefused if this jaxlib describes its CPU in another way than those that were tried.
    """
    try:
        here = bytes_of(bytes_of(topology, _DESCRIBED), _MESSAGE)
        there = _cpu_topology(here, level, devices)
        return replaced(topology, [_DESCRIBED, _MESSAGE], there)
    except Malformed as err:
        msg = (
            f"jaxlib describes this machine's CPU in a way that aotbuild does not know ({err}); "
            f"{level.name} cannot be compiled for: use a jax that this aotbuild was tested with"
        )
        raise TraceRefused(msg) from err


def _cpu_topology(here: bytes, level: IsaLevel, devices: int) -> bytes:
    triple = bytes_of(bytes_of(here, _MACHINE), _TRIPLE)
    if not triple:
        msg = "no machine with a triple"
        raise Malformed(msg)
    machine = bytes_field(_TRIPLE, triple)
    machine += bytes_field(_CPU, level.llvm_cpu.encode())
    machine += bytes_field(_FEATURES, level.llvm_features.encode())
    parts = [bytes_field(_DEVICE, number_field(_LOCAL, local)) for local in range(devices)]
    parts += [field.whole for field in fields(here) if field.number not in (_DEVICE, _MACHINE)]
    return b"".join([*parts, bytes_field(_MACHINE, machine)])
