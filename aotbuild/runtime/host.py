"""Hosts: what is true of this process and machine, probed apart from any decision."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from aotbuild.frozen import dataclass
from aotbuild.platforms.cpu import host as cpuinfo
from aotbuild.platforms.cpu.isa import best_level

if TYPE_CHECKING:
    from aotbuild.runtime.devices import DeviceSet

# The distributions that a platform's PJRT plugin may come from; no two at once work.
_PLUGINS = {"cuda": ("jax-cuda13-pjrt", "jax-cuda12-pjrt"), "tpu": ("libtpu",)}


@dataclass(frozen=True)
class Host:
    """One platform of this process, and its devices of one kind, as requirements see them.

    `device_count` counts the devices of this process, `devices_everywhere` those of all processes
    (None: there is only this one); `named` says that a caller named them with `on`.
    `arrays` is the backend: numpy's arrays are on one device, and none is a typed PRNG key.
    `custom_calls` are the targets registered for the platform; `lapack` says whether jaxlib can
    initialize its LAPACK kernels.

    Of GPUs: `capability` is the compute capability as XLA compares it, with its suffix (`9.0a`),
    `cuda` the version of the CUDA runtime, `driver` the newest that the driver serves. Of TPUs:
    `topology` is the size of the slice (`2x4x1`). `plugins` are the distributions, with versions,
    that the platform may come from. None and empty: there is none, or it cannot be found.
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
    devices_everywhere: int | None = None
    capability: str | None = None
    topology: str | None = None
    plugins: tuple[tuple[str, str], ...] = ()
    cuda: str | None = None
    driver: str | None = None
    cudnn: str | None = None
    named: bool = False
    arrays: str = "jax"

    @property
    def isa(self) -> str | None:
        """The highest ISA level that the CPU satisfies, or None."""
        return best_level(self.architecture, self.features)


def host_of(devices: DeviceSet, **facts: Any) -> Host:
    """Return the host's facts for some devices; `facts` are those that the backend knows."""
    from jaxlib.version import __version__ as jaxlib_version

    from aotbuild.runtime.devices import capability_of, slice_bounds

    return Host(
        platform=devices.platform,
        device_count=len(devices.local),
        device_kinds=tuple(sorted({device.device_kind for device in devices.local})),
        architecture=cpuinfo.architecture(),
        features=cpuinfo.features(),
        jaxlib=jaxlib_version,
        devices_everywhere=len(devices.devices),
        capability=capability_of(devices.first) if devices.local else None,
        # Of the whole slice: some devices of it are wired no otherwise.
        topology=slice_bounds(devices.first.client.devices()) if devices.local else None,
        plugins=_plugins(devices.platform),
        named=devices.named,
        **facts,
    )


@cache
def _plugins(platform: str) -> tuple[tuple[str, str], ...]:
    if platform not in _PLUGINS:
        return ()
    from importlib import metadata  # 10 ms that only such a platform pays

    found = []
    for name in _PLUGINS[platform]:
        try:
            found.append((name, metadata.version(name)))
        except metadata.PackageNotFoundError:
            continue
    return tuple(found)
