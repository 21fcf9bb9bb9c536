"""GPUs of a host: compute capability, and the CUDA versions that jax's plugin finds."""

from __future__ import annotations

import importlib
import itertools
import os
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from aotbuild.platforms.base import Facts, HostPart, Kernels

# The newest first: jax also uses it if two are installed.
MAJORS = (13, 12)
# The modules of jax's CUDA plugin that have kernels: cuSOLVER, cuSPARSE, cuDNN's RNNs, jax's own.
# Those of 0.10.2 and 0.12.0.1.
_KERNELS = ("_solver", "_linalg", "_sparse", "_prng", "_triton", "_rnn", "_hybrid")
# What the plugin's own library registers for Pallas.
_OF_MOSAIC = ("mosaic_gpu", "mosaic_gpu_v2")


@cache
def versions() -> Facts:
    """Return the versions of the CUDA runtime, the newest that the driver serves, and cuDNN."""
    return versions_of(module_of_plugin("_versions"))


def module_of_plugin(name: str) -> Any:
    """Return a module of jax's CUDA plugin, or None."""
    for major in MAJORS:
        try:
            return importlib.import_module(f"jax_cuda{major}_plugin.{name}")
        except ImportError:
            continue
    return None


def set_mosaic_variables() -> None:
    """Tell the plugin where Mosaic GPU's runtime and ptxas are, unless the variables are set.

    The plugin compiles a Mosaic kernel when the executable is loaded or first run, and only an
    import of `jax.experimental.mosaic.gpu` sets these. Not tried on a GPU.
    """
    runtime = Path(module_of_plugin("_mosaic_gpu_ext").__file__)
    nvidia = find_spec("nvidia")
    roots = (nvidia.submodule_search_locations if nvidia else None) or ()
    found = [root for root in map(Path, roots) for root in (root / "cu13", root / "cuda_nvcc")]
    found = [root for root in found if (root / "bin" / "ptxas").exists()]
    cuda = os.environ.get("CUDA_ROOT") or str(next(iter(found), "/usr/local/cuda"))
    os.environ.setdefault("MOSAIC_GPU_CUDA_ROOT", cuda)
    os.environ.setdefault(
        "MOSAIC_GPU_RUNTIME_LIB_PATH", str(runtime.with_name("libmosaic_gpu_runtime.so"))
    )


def versions_of(module: Any) -> Facts:
    """Return versions as `13.5` from the plugin's module `_versions`; None for what it lacks.

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

    return (
        ("cuda", version("cuda_runtime_get_version", 1000, 10)),
        ("driver", version("cuda_driver_get_version", 1000, 10)),
        # From cuDNN 9 on: MAJOR * 10000 + MINOR * 100 + PATCH (cudnn_version.h).
        ("cudnn", version("cudnn_get_version", 10000, 100, 1)),
    )


def capability_of(device: Any) -> str | None:
    """Return the compute capability of a GPU as XLA compares it, as `9.0a`.

    PJRT gives it without the suffix; inside XLA a GPU of 9.0 or above always has the features that
    `a` stands for (xla/stream_executor/cuda/cuda_executor.cc).
    """
    capability = getattr(device, "compute_capability", None)
    if capability is None:
        return None
    major, _, minor = str(capability).partition(".")
    accelerated = major.isdigit() and minor.isdigit() and int(major) >= 9
    return f"{capability}a" if accelerated else str(capability)


class Cuda(HostPart):
    """See `HostPart`."""

    # They cannot be installed together.
    plugins = ("jax-cuda13-pjrt", "jax-cuda12-pjrt")
    variables = ("CUDA_VISIBLE_DEVICES",)
    xla_name = "CUDA"
    fact_names = ("capability", "cuda", "driver", "cudnn")
    # Both are jaxlib's platform `gpu`.
    package_prefixes = ("jax-cuda", "jax-rocm")

    def kernels(self) -> Iterator[Kernels]:
        """Yield those of jax's plugin; nothing if it is not installed."""
        yield from map(Kernels.of, filter(None, map(module_of_plugin, _KERNELS)))
        extension = module_of_plugin("cuda_plugin_extension")
        if extension is not None:
            yield Kernels(extension.ffi_handlers())
            yield Kernels(dict.fromkeys(_OF_MOSAIC), set_mosaic_variables)

    def name_of(self, device: Any) -> str | None:
        if device.platform != "gpu":
            return None
        return "rocm" if "rocm" in device.client.platform_version.lower() else "cuda"

    def facts(self, device: Any) -> Facts:
        return (("capability", capability_of(device)), *versions())


PLATFORM = Cuda()
