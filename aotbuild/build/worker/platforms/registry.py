"""The platforms by their names."""

from __future__ import annotations

from aotbuild.build.worker.platforms.cpu import CpuPlatform
from aotbuild.build.worker.platforms.cuda import CudaPlatform
from aotbuild.build.worker.platforms.cuda_bytes import readable
from aotbuild.build.worker.platforms.platform import Platform
from aotbuild.build.worker.platforms.tpu import TpuPlatform

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
