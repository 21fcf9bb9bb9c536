"""Compiling for CPUs of an ISA level: for a described CPU, or for this one below a cap.

From jaxlib 0.11.2 on, XLA compiles for a description of a CPU of exactly that level. Before, flags
of the process cap this machine's CPU, which leaves features beyond the level. In both cases the
instructions are read, and the features that they use become requirements.

Bytes are reproducible as far as XLA:CPU is. Where a small loop becomes one kernel over several
buffers (`lax.scan` over small arrays, `jax.random`), XLA takes their order from a hash table whose
seed differs in each process. Loops that only move memory are split by the number of CPUs of the
machine that builds. Both were seen on jaxlib 0.10.2 and 0.12.0.1; results are the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import jax
from jaxlib.version import __version__ as jaxlib_version

from aotbuild.errors import TraceRefused
from aotbuild.format.protobuf import (
    Malformed,
    bytes_field,
    bytes_of,
    fields,
    number_field,
    replaced,
)
from aotbuild.format.record import Record
from aotbuild.format.target import Target
from aotbuild.platforms.building import Compiler, Hardware
from aotbuild.platforms.cpu import host as cpuinfo
from aotbuild.platforms.cpu.checks import IsaLevel, level_of, missing_features
from aotbuild.platforms.cpu.describe import cross_compiles
from aotbuild.platforms.cpu.instructions import features_beyond, prepare

_DESCRIBED, _MESSAGE = 9, 2
_DEVICE, _MACHINE, _LOCAL = 1, 5, 3
_TRIPLE, _CPU, _FEATURES = 1, 2, 3


def retarget(topology: bytes, level: IsaLevel, devices: int) -> bytes:
    """Return the topology of devices of exactly that level.

    Raises TraceRefused if this jaxlib describes its CPU in an unknown way.
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


class CpuCompiler(Compiler):
    """See `Compiler`."""

    def start(self) -> None:
        prepare()

    def devices(self, target: Target, _: Hardware, private: Any) -> Sequence[Any]:
        """Return devices of the target's level; for older jaxlibs, those of this process."""
        if cross_compiles(jaxlib_version):
            return _absent_devices(target.detail, target.devices, private)
        return list(jax.devices("cpu")[: target.devices])

    def requirements(self, target: Target, _: Hardware, data: bytes, __: str) -> dict[str, Any]:
        """Return the level, and the features beyond it that the code uses."""
        level = level_of(target.detail)
        return {"isa": level.name, "features": list(_features(level, data))}

    def deciding_facts(self, hardware: Hardware) -> list[Any]:
        if cross_compiles(jaxlib_version):
            return []
        return [cpuinfo.architecture(), sorted(cpuinfo.features())]

    def obstacle(self, target: Target) -> str | None:
        if target.devices != 1:
            return f"{target} is for {target.devices} devices"
        lacking = missing_features(target.detail, cpuinfo.architecture(), cpuinfo.features())
        return f"this machine has no {', '.join(lacking)} for {target}" if lacking else None

    def notes(self, record: Record) -> list[str]:
        return level_notes(record)


def level_notes(record: Record) -> list[str]:
    """Return a note for the user if an executable needs more than its ISA level."""
    more = ", ".join(record.requires.features)
    if not more:
        return []
    why = (
        f"jaxlib {jaxlib_version} compiles for the CPU of this machine below a cap; "
        "jax 0.11.2 and later compile for the level itself"
    )
    if cross_compiles(jaxlib_version):
        why = "XLA was not told to use it; report it to aotbuild"
    return [f"{record.target} uses {more} beyond its level, and CPUs without are refused: {why}"]


def _features(level: IsaLevel, data: bytes) -> tuple[str, ...]:
    exact = cross_compiles(jaxlib_version)
    if level.architecture == "x86_64":
        return features_beyond(level, data, exact=exact)
    # These instructions cannot be read, so they may use any feature of this CPU.
    return () if exact else tuple(sorted(cpuinfo.features()))


@cache
def _absent_devices(level: str, count: int, private: Any) -> list[Any]:
    devices = private.absent_cpu_devices(lambda here: retarget(here, level_of(level), count))
    return list(devices)


PLATFORM = CpuCompiler()
