"""Compiling for absent TPU slices, with libtpu."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import metadata
from typing import Any

from jax.experimental import topologies

from aotbuild.errors import TraceRefused
from aotbuild.format.target import Target
from aotbuild.platforms.building import Compiler, Hardware
from aotbuild.platforms.tpu.describe import LIBTPU

# What Pallas says where a kernel asks for the TPU that it is made for (jax 0.10.2 and 0.12.0.1).
_NEEDS_TPU = "Unsupported TPU device kind: cpu"


class TpuCompiler(Compiler):
    """See `Compiler`."""

    def devices(self, target: Target, hardware: Hardware, _: Any) -> Sequence[Any]:
        """Return the devices of a slice in the order of `jax.devices()` on a real one.

        They are grouped by process. A function on one device is compiled for the first.
        """
        return _slice(target.detail, hardware)[: target.devices]

    def requirements(self, target: Target, hardware: Hardware, _: bytes, __: str) -> dict[str, Any]:
        """Return the device kind, libtpu's version and, for the whole slice, its size."""
        wiring = target.detail.partition(":")[2] if target.devices > 1 else None
        return {
            "device_kinds": [hardware.kind],
            "topology": wiring,
            "plugin": [LIBTPU, metadata.version(LIBTPU)],
        }

    def provenance(self, _: Hardware) -> dict[str, Any]:
        return {"compilers": {LIBTPU: metadata.version(LIBTPU)}}

    def asks_for_device(self, error: Exception) -> bool:
        return _NEEDS_TPU in str(error)


@cache
def _slice(name: str, hardware: Hardware) -> Sequence[Any]:
    """Return the same devices for the same slice: those of two topologies are never equal."""
    described: dict[str, Any] = {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in hardware.description
    }
    try:
        devices: list[Any] = list(topologies.get_topology_desc(platform="tpu", **described).devices)
    except Exception as err:  # libtpu raises several types
        reason = str(err).partition("\n")[0]
        msg = f"tpu:{name}: {LIBTPU} {metadata.version(LIBTPU)} has no such slice: {reason}"
        raise TraceRefused(msg) from err
    kinds = sorted({device.device_kind for device in devices})
    if kinds != [hardware.kind]:
        msg = (
            f"tpu:{name}: {LIBTPU} {metadata.version(LIBTPU)} names these devices "
            f"{', '.join(kinds)}, expected {hardware.kind}: no TPU would take the executable; "
            "use a jax that this aotbuild was tried with"
        )
        raise TraceRefused(msg)
    return devices


PLATFORM = TpuCompiler()
