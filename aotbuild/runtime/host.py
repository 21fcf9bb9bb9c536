"""Hosts: what is true of this process and machine, probed apart from any decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aotbuild.spec import cpuinfo
from aotbuild.spec.isa import best_level


@dataclass(frozen=True)
class Host:
    """One platform of this process, as requirements see it.

    `custom_calls` are the targets registered for the platform; `lapack` says whether jaxlib can
    initialize its LAPACK kernels.
    """

    platform: str
    device_count: int
    device_kinds: tuple[str, ...]
    process_count: int
    architecture: str
    features: frozenset[str]
    jaxlib: str
    x64: bool
    custom_calls: frozenset[str] = frozenset()
    lapack: bool = True

    @property
    def isa(self) -> str | None:
        """The highest ISA level that the CPU satisfies, or None."""
        return best_level(self.architecture, self.features)


def probe(platform_name: str | None = None) -> Host:
    """Return the facts of a platform (default: that of the default device). Imports jax."""
    import jax
    from jaxlib.version import __version__ as jaxlib_version

    from aotbuild.runtime import jax_private
    from aotbuild.runtime.placement import default_platform, local_devices

    name = platform_name or default_platform()
    devices = local_devices(name)
    return Host(
        platform=name,
        device_count=len(devices),
        device_kinds=tuple(sorted({device.device_kind for device in devices})),
        process_count=jax.process_count(),
        architecture=cpuinfo.architecture(),
        features=cpuinfo.features(),
        jaxlib=jaxlib_version,
        x64=bool(jax.config.jax_enable_x64),
        custom_calls=jax_private.custom_call_targets(name),
        lapack=jax_private.has_lapack(),
    )


def platform_of(device: Any) -> str:
    """Return the platform of a jax device as targets name it: `cpu`, `cuda`, `rocm` or `tpu`."""
    if device.platform != "gpu":
        return str(device.platform)
    return "rocm" if "rocm" in device.client.platform_version.lower() else "cuda"
