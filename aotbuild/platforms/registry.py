"""The platforms by their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from aotbuild.platforms.building import Hardware
from aotbuild.platforms.cpu.compile import CpuPlatform
from aotbuild.platforms.cuda.bytes import readable
from aotbuild.platforms.cuda.compile import CudaPlatform
from aotbuild.platforms.tpu.compile import TpuPlatform
from aotbuild.spec.target import Target


class Platform(Protocol):
    """Devices to compile for, which may be elsewhere, and what their executables require."""

    def devices(self, target: Target, hardware: Hardware) -> Sequence[Any]:
        """Return jax's devices of a target, in the order of the executable.

        TraceRefused says what is missing here to compile for them.
        """
        ...

    def compiler_options(self, target: Target, hardware: Hardware) -> Mapping[str, Any]:
        """Return options for XLA beside the manifest's."""
        ...

    def requirements(
        self, target: Target, hardware: Hardware, data: bytes, hlo: str
    ) -> dict[str, Any]:
        """Return the fields of `Requirements` that this platform fills, from what was made.

        TraceRefused if the bytes are not what was asked for. The result can be JSON.
        """
        ...

    def provenance(self, hardware: Hardware) -> dict[str, Any]:
        """Return what a record says of the compilers; the store's key has `compilers` of it."""
        ...

    def asks_for_device(self, error: Exception) -> bool:
        """Return whether a kernel could not be traced or lowered, as it asks for its device."""
        ...


_PLATFORMS: dict[str, Platform] = {
    "cpu": CpuPlatform(),
    "cuda": CudaPlatform(),
    "tpu": TpuPlatform(),
}


def searchable(name: str, data: bytes) -> bytes:
    """Return the bytes of an executable so that a search finds what is in them."""
    return readable(data) if name == "cuda" else data


def platform(name: str) -> Platform:
    """Return the platform of a target."""
    return _PLATFORMS[name]
