"""Versions of CUDA on this machine, as jax's CUDA plugin finds them."""

from __future__ import annotations

import itertools
from typing import Any

from aotbuild.frozen import dataclass


@dataclass(frozen=True)
class CudaVersions:
    """Versions as `13.5`: the CUDA runtime, the newest that the driver serves, and cuDNN."""

    runtime: str | None = None
    driver: str | None = None
    cudnn: str | None = None


def versions_of(module: Any) -> CudaVersions:
    """Return what the plugin's module `_versions` finds of CUDA; None for what it does not find.

    Tried on 0.10.2 and 0.12.0.1 without a GPU, where the runtime is found, the driver is 0, and
    cuDNN raises RuntimeError.
    """

    def version(name: str, *steps: int) -> str | None:
        try:
            number = int(getattr(module, name)())
        except (AttributeError, RuntimeError):
            return None
        parts = [number // steps[0], *(number % a // b for a, b in itertools.pairwise(steps))]
        return ".".join(map(str, parts)) if number else None

    return CudaVersions(
        runtime=version("cuda_runtime_get_version", 1000, 10),
        driver=version("cuda_driver_get_version", 1000, 10),
        # From cuDNN 9 on: MAJOR * 10000 + MINOR * 100 + PATCH (cudnn_version.h).
        cudnn=version("cudnn_get_version", 10000, 100, 1),
    )
