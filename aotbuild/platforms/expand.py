"""From what a manifest asks for to targets, by platform. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from aotbuild.manifest import CpuTarget, CudaTarget, PortableTarget, TpuTarget
from aotbuild.manifest import Target as Request
from aotbuild.platforms.base import Hardware
from aotbuild.platforms.cpu import describe as cpu
from aotbuild.platforms.cuda import describe as cuda
from aotbuild.platforms.tpu import describe as tpu
from aotbuild.spec.target import Target
from aotbuild.toolchains.environment import Environment, Toolchain


def problems(request: Request, toolchain: Toolchain, environment: Environment) -> Iterator[str]:
    """Yield why a toolchain on this machine cannot build what is asked for."""
    if isinstance(request, CpuTarget):
        yield from cpu.problems(request, toolchain, environment)
    elif isinstance(request, CudaTarget):
        yield from cuda.problems(request, toolchain, environment)
    elif isinstance(request, TpuTarget):
        yield from tpu.problems(request, toolchain, environment)


def expand(
    request: Request, devices: int, environment: Environment
) -> Iterator[tuple[Target, Hardware]]:
    """Yield the targets of a request for a function whose mesh spans so many devices."""
    if isinstance(request, PortableTarget):
        yield Target("portable", ",".join(sorted(request.platforms)), devices), Hardware()
    elif isinstance(request, CpuTarget):
        yield from cpu.expand(request, devices, environment)
    elif isinstance(request, CudaTarget):
        yield from cuda.expand(request, devices, environment)
    else:
        yield from tpu.expand(request, devices, environment)


def packages(request: Request, jax: str) -> list[str]:
    """Return what compiles for a request beside jax itself, as requirements."""
    if isinstance(request, CudaTarget):
        return cuda.packages(jax)
    return tpu.packages(jax) if isinstance(request, TpuTarget) else []
