"""Hosts: what is true of this process and machine, probed apart from any decision."""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from aotbuild.spec.isa import best_level

_ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}


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
        architecture=probe_architecture(),
        features=probe_cpu_features(),
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


def probe_architecture() -> str:
    """Return the CPU architecture as ISA levels name it."""
    machine = platform.machine().lower()
    return _ARCHITECTURES.get(machine, machine)


@cache
def probe_cpu_features() -> frozenset[str]:
    """Return the CPU's features as Linux names them; empty where they cannot be read.

    Only x86-64 levels need features, and only Linux says which are there: elsewhere executables
    for x86-64 are refused, those for aarch64 are not.
    """
    if sys.platform != "linux":
        return frozenset()
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    return parse_cpuinfo(text)


def parse_cpuinfo(text: str) -> frozenset[str]:
    """Return the features that every CPU listed in the text of /proc/cpuinfo has."""
    lines = (line.partition(":") for line in text.splitlines())
    flags = [set(value.split()) for key, _, value in lines if key.strip() in ("flags", "Features")]
    return frozenset(set.intersection(*flags)) if flags else frozenset()
