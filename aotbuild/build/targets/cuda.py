"""CUDA targets: GPUs by the presets of `configs/targets`, or by a file of the user's."""

from __future__ import annotations

from collections.abc import Iterator

from aotbuild.build.environment import Environment, Toolchain
from aotbuild.build.manifest import CudaTarget
from aotbuild.build.targets.hardware import Hardware
from aotbuild.spec.target import Target


def packages(jax: str) -> list[str]:
    """Return what compiles for this platform beside that jax, as requirements."""
    plugins = (f"{name}=={jax}" for name in ("jax-cuda13-plugin", "jax-cuda13-pjrt"))
    return [*plugins, "nvidia-cuda-nvcc", "nvidia-nvvm"]


def problems(_: CudaTarget, __: Toolchain, ___: Environment) -> Iterator[str]:
    """Yield why this machine cannot build a target."""
    yield "cuda: this version of aotbuild builds cpu and portable targets only"


def expand(request: CudaTarget, devices: int, _: Environment) -> Iterator[tuple[Target, Hardware]]:
    """Yield the targets of a request for a function that spans so many devices."""
    if request.devices in (None, devices):
        for gpu in request.gpus:
            yield Target("cuda", gpu, devices), Hardware()
