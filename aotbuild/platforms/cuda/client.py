"""CUDA without jax: the plugin that jax would load, its client, and results copied to the host.

Written after jax_plugins/xla_cuda13/__init__.py of 0.10.2 and 0.12.0.1. Tried with the real plugin
up to the point where it finds no driver; not run on a GPU in this form.
"""

from __future__ import annotations

import ctypes
import os
import re
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from aotbuild.errors import AotbuildError
from aotbuild.platforms.base import Client
from aotbuild.platforms.cuda.driver import open_driver

# What jax looks for before it loads the plugin (jax._src.hardware_utils).
OF_GPUS = ("/dev/nvidia0", "/dev/nvidiactl", "/dev/dxg")
# What the plugin asks the loader for by name, in the order of jax, by folders of the package
# `nvidia`: pip installs it where the loader does not look.
_OF_ALL = {
    "nccl": ("libnccl.so.2",),
    "nvshmem": ("libnvshmem_host.so.3",),
    "cudnn": ("libcudnn.so.9",),
}
_LIBRARIES = {
    13: {
        "cu13": (
            *("libcudart.so.13", "libnvrtc.so.13", "libcublas.so.13", "libcublasLt.so.13"),
            *("libcupti.so.13", "libcusparse.so.12", "libcusolver.so.12", "libcufft.so.12"),
        ),
        **_OF_ALL,
    },
    12: {
        "cuda_runtime": ("libcudart.so.12",),
        "cuda_nvrtc": ("libnvrtc.so.12",),
        "cublas": ("libcublas.so.12", "libcublasLt.so.12"),
        "cuda_cupti": ("libcupti.so.12",),
        "cusparse": ("libcusparse.so.12",),
        "cusolver": ("libcusolver.so.11",),
        "cufft": ("libcufft.so.11",),
        **_OF_ALL,
    },
}
# What decides how the client takes memory, as jaxlib 0.10.2 and 0.12.0.1 read it
# (xla_client.generate_pjrt_gpu_plugin_options). Empty is unset there.
VARIABLES = (
    *("XLA_PYTHON_CLIENT_PREALLOCATE", "XLA_CLIENT_MEM_FRACTION"),
    *("XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_ALLOCATOR"),
)
# XLA's allocator, and the driver.
_FULL = re.compile(r"RESOURCE_EXHAUSTED|out of memory|CUDA_ERROR_OUT_OF_MEMORY", re.IGNORECASE)
# A library of NVIDIA that cannot make its handle, which needs some memory but does not say so.
_HANDLE = re.compile(
    r"Failed to initialize (BLAS|BLASLT|DNN) support|DNN library initialization failed"
    r"|CU(BLAS|DNN|SOLVER)_STATUS_(ALLOC_FAILED|NOT_INITIALIZED|INTERNAL_ERROR)"
)
_ENOUGH_FOR_HANDLES = 1 << 30


class Plugin(NamedTuple):
    """The library of jax's CUDA plugin, and the major version of CUDA that it is for."""

    library: Path
    major: int


def plugin() -> Plugin | None:
    """Return jax's CUDA plugin; None if it is not installed. Loads nothing."""
    for major in _LIBRARIES:
        try:
            spec = find_spec(f"jax_plugins.xla_cuda{major}")
        except ModuleNotFoundError:
            return None
        library = Path(spec.origin).parent / "xla_cuda_plugin.so" if spec and spec.origin else None
        if library and library.exists():
            return Plugin(library, major)
    return None


def make_client(private: Any) -> Any:
    """Return a client for the GPUs.

    NoGpu if there is no driver or no GPU; AotbuildError if there is no plugin, if it or the driver
    is of another version, if the GPU is full, or with what the plugin says.
    """
    from aotbuild.platforms.cuda.host import module_of_plugin  # a process without a GPU needs none

    found = plugin()
    if found is None:
        msg = "no CUDA plugin is installed\nInstall it: pip install jax-cuda13-plugin"
        raise AotbuildError(msg)
    _check_plugin(found.major)
    _check_driver(found.major)
    _load_libraries(found.major)
    extension = module_of_plugin("cuda_plugin_extension")
    try:
        return private.make_cuda_client(str(found.library), extension, client_options())
    except Exception as err:  # jaxlib raises RuntimeError and its own
        said = f"{type(err).__name__}: {err}"
        msg = shortage(said, 0) or f"CUDA cannot be used\n  found    {said}"
        raise AotbuildError(msg) from err


def client_options() -> dict[str, Any]:
    """Return options for a client that takes memory as it needs it, unless a variable decides.

    A plugin of jax would reserve 75 % of each GPU. The limit of 75 % stays.
    """
    return {} if any(map(os.environ.get, VARIABLES)) else {"preallocate": False}


def _check_plugin(major: int) -> None:
    """Raise AotbuildError if the plugin is of another version than jaxlib.

    As jax, look at the numbers of a release only (jaxlib.plugin_support.check_plugin_version).
    """
    from aotbuild.format.dist_info import installed_version  # 10 ms that only GPUs cost

    jaxlib = installed_version("jaxlib")
    for name in (f"jax-cuda{major}-pjrt", f"jax-cuda{major}-plugin"):
        version = installed_version(name)
        if version and jaxlib and _release(version) != _release(jaxlib):
            msg = (
                f"CUDA cannot be used\n  expected {name} {jaxlib}, as jaxlib\n"
                f"  found    {name} {version}\nInstall it: pip install {name}=={jaxlib}"
            )
            raise AotbuildError(msg)


def _release(version: str) -> str:
    found = re.match(r"[0-9]+(\.[0-9]+)*", version)
    return found[0] if found else version


def _check_driver(major: int) -> None:
    found = open_driver().cuda
    if found < (major, 0):
        msg = (
            f"CUDA cannot be used\n  expected an NVIDIA driver for CUDA {major}.0 or newer, as "
            f"jax-cuda{major}-plugin needs\n  found    one for CUDA {found[0]}.{found[1]}\n"
            "Update the driver of the machine; a container uses that of its host."
        )
        raise AotbuildError(msg)


def _load_libraries(major: int) -> None:
    """Load NVIDIA's libraries from pip's packages, so that the plugin finds these by name.

    One that cannot be loaded is left to the loader's own path, as jax does.
    """
    try:
        spec = find_spec("nvidia")
    except (ModuleNotFoundError, ValueError):
        return
    roots = [Path(root) for root in (spec.submodule_search_locations or ())] if spec else []
    for folder, names in _LIBRARIES[major].items():
        for path in (root / folder / "lib" / name for name in names for root in roots):
            if path.exists():
                with suppress(OSError):
                    ctypes.CDLL(str(path))


def shortage(error: str, number: int) -> str | None:
    """Return the message for an error of a GPU that is full, by its number; None for another error.

    A handle that cannot be made has other causes too, such as a missing library: it counts only if
    there is little memory.
    """
    is_full = bool(_FULL.search(error))
    if not is_full and not _HANDLE.search(error):
        return None
    try:
        free, total = open_driver().memory(number)
        found = f"{free >> 20:,} MiB free of {total >> 20:,} MiB"
    except (AotbuildError, AttributeError):  # an old driver lacks a function
        free, found = _ENOUGH_FOR_HANDLES, "a full GPU"
    if not is_full and free >= _ENOUGH_FOR_HANDLES:
        return None
    return (
        f"GPU {number} has too little free memory\n"
        f"  expected memory for it\n  found    {found}\n  it said  {error}\n"
        "A process that uses jax reserves 75 % of a GPU when it starts: set "
        "XLA_PYTHON_CLIENT_PREALLOCATE=false, or XLA_CLIENT_MEM_FRACTION to a share such as 0.3, "
        "in each process on it. Or choose another GPU with CUDA_VISIBLE_DEVICES."
    )


class Cuda(Client):
    """See `Client`."""

    aliases = ("gpu",)

    def is_default(self) -> bool:
        return any(map(os.path.exists, OF_GPUS)) and plugin() is not None

    def make(self, private: Any) -> Any:
        return make_client(private)

    def options(self) -> dict[str, Any]:
        return client_options()

    def shortage(self, error: str, ordinal: int) -> str | None:
        return shortage(error, ordinal)

    def copy(self, pointer: int, size: int, ordinal: int) -> Any:
        return open_driver().copy(pointer, size, ordinal)


PLATFORM = Cuda()
