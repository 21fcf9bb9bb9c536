"""The tools of CUDA beside jax, where XLA looks for them, and the plugin's versions."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from aotbuild.errors import TraceRefused
from aotbuild.platforms.cuda.describe import COMPILERS, CUDA_ROOT

PLUGIN = "jax-cuda13-pjrt"
# The files that XLA reads, and the distribution of each.
_FILES = {"bin/ptxas": "nvidia-cuda-nvcc", "nvvm/libdevice/libdevice.10.bc": "nvidia-nvvm"}


# Where CUDA is installed on a machine with a GPU, if not with jax.
_SYSTEM_CUDA = "/usr/local/cuda"


def link_tools(*, system: bool = False) -> None:
    """Link the tools into the current folder; raises TraceRefused if one is missing.

    With `system`, for the GPU of this machine, the machine's own CUDA will do.
    """
    link = Path(CUDA_ROOT)
    if not link.is_symlink():
        folder = _toolkit() or (Path(_SYSTEM_CUDA) if system else None)
        if folder is not None:
            # The two processes of a job work in one folder, and either may be the first.
            with suppress(FileExistsError):
                link.symlink_to(folder, target_is_directory=True)
    missing = sorted({owner for file, owner in _FILES.items() if not (link / file).exists()})
    if missing:
        others = f"nor a whole {_SYSTEM_CUDA}" if system else "aotbuild never uses the system's"
        msg = (
            f"the CUDA compiler is not complete: {', '.join(missing)} is not installed beside jax, "
            f"or not whole; {others}. Install it into the build environment"
        )
        raise TraceRefused(msg)


def compiler_versions() -> dict[str, str]:
    """Return the versions of the distributions that compile, by name."""
    return dict(_installed())


def runtime_versions() -> Mapping[str, str]:
    """Return the lowest versions that can run the plugin's executables: those it was built with.

    `cuda` is the CUDA runtime's, which is also the driver's, and `cudnn` that of cuDNN.
    """
    try:
        versions: Any = importlib.import_module("jax_cuda13_plugin._versions")
    except ImportError as err:
        msg = f"jax-cuda13-plugin is not installed in the build environment, or not whole: {err}"
        raise TraceRefused(msg) from err
    # 13000 is 13.0.0: CUDA_VERSION is 1000 * major + 10 * minor.
    cuda = versions.cuda_runtime_build_version()
    # 91200 is 9.12.0: CUDNN_VERSION is 10000 * major + 100 * minor + patch.
    cudnn = versions.cudnn_build_version()
    return {
        "cuda": f"{cuda // 1000}.{cuda % 1000 // 10}.{cuda % 10}",
        "cudnn": f"{cudnn // 10000}.{cudnn // 100 % 100}.{cudnn % 100}",
    }


def _toolkit() -> Path | None:
    """Return the folder of NVIDIA's wheels for CUDA 13, if any of them is installed."""
    try:
        spec = importlib.util.find_spec("nvidia.cu13")
    except ModuleNotFoundError:
        return None
    places = spec.submodule_search_locations if spec else None
    return Path(next(iter(places))) if places else None


def _installed() -> Iterator[tuple[str, str]]:
    for name in COMPILERS:
        try:
            yield name, metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
