"""Hosts: what is true of this process and machine, probed apart from any decision."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from aotbuild.frozen import dataclass
from aotbuild.platforms.cpu import host as cpuinfo
from aotbuild.platforms.cpu.isa import best_level

if TYPE_CHECKING:
    from aotbuild.runtime.devices import Scope

# The distributions that a platform's PJRT plugin may come from; no two at once work.
_PLUGINS = {"cuda": ("jax-cuda13-pjrt", "jax-cuda12-pjrt"), "tpu": ("libtpu",)}


@dataclass(frozen=True)
class Host:
    """One platform of this process, and its devices of one kind, as requirements see them.

    `device_count` counts the devices of this process, `devices_everywhere` those of all processes
    (None: there is only this one); `named` says that a caller named them with `on`.
    `arrays` is the door: numpy's arrays are on one device, and none is a typed PRNG key.
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


def probe(where: str | Scope | None = None) -> Host:
    """Return the facts of some devices, of a platform, or of the default device. Imports jax.

    Only what the platform has is looked for: a CPU costs no more for there being others.
    """
    import jax

    from aotbuild.runtime.backends.jax import private as jax_private
    from aotbuild.runtime.backends.jax.placement import scope_of
    from aotbuild.runtime.devices import Scope

    scope = where if isinstance(where, Scope) else scope_of(where)
    name, is_cuda = scope.platform, scope.platform == "cuda"
    cuda = jax_private.cuda_versions() if is_cuda and scope.here else None
    return host_of(
        scope,
        process_count=jax.process_count(),
        x64=bool(jax.config.jax_enable_x64),
        custom_calls=jax_private.custom_call_targets(name),
        lapack=jax_private.has_lapack(),
        cuda=cuda.runtime if cuda else None,
        driver=cuda.driver if cuda else None,
        cudnn=cuda.cudnn if cuda else None,
    )


def host_of(scope: Scope, **facts: Any) -> Host:
    """Return the facts of some devices; `facts` are what the door knows. Imports no jax."""
    from jaxlib.version import __version__ as jaxlib_version

    from aotbuild.runtime.devices import bounds, capability_of

    return Host(
        platform=scope.platform,
        device_count=len(scope.here),
        device_kinds=tuple(sorted({device.device_kind for device in scope.here})),
        architecture=cpuinfo.architecture(),
        features=cpuinfo.features(),
        jaxlib=jaxlib_version,
        devices_everywhere=len(scope.everywhere),
        capability=capability_of(scope.first) if scope.here else None,
        # Of the whole slice: some devices of it are wired no otherwise.
        topology=bounds(scope.first.client.devices()) if scope.here else None,
        plugins=_plugins(scope.platform),
        named=scope.named,
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
