"""CUDA without jax: the plugin that jax would load, its client, and results copied to the host.

Written after jax_plugins/cuda/__init__.py and the driver's own documentation, and checked with
fakes only: nobody has run it on a GPU yet.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from aotbuild.errors import AotbuildError
from aotbuild.platforms.base import Client

# What jax looks for before it loads the plugin (jax._src.hardware_utils).
OF_GPUS = ("/dev/nvidia0", "/dev/nvidiactl", "/dev/dxg")
# What the plugin asks the loader for by name; pip installs it where the loader does not look.
_LIBRARIES = (
    *("libcudart", "libnvrtc", "libcublasLt", "libcublas", "libnccl", "libcupti"),
    *("libnvJitLink", "libcusparse", "libcusolver", "libcufft", "libnvshmem_host", "libcudnn"),
)


def plugin() -> Path | None:
    """Return the library of jax's CUDA plugin; None if it is not installed. Loads nothing."""
    from aotbuild.platforms.cuda.host import MAJORS  # a process without a GPU needs none of it

    for major in MAJORS:
        try:
            spec = find_spec(f"jax_plugins.xla_cuda{major}")
        except ModuleNotFoundError:
            return None
        library = Path(spec.origin).parent / "xla_cuda_plugin.so" if spec and spec.origin else None
        if library and library.exists():
            return library
    return None


def make_client(private: Any) -> Any:
    """Return a client for the GPUs; AotbuildError with what the plugin says if there is none."""
    from aotbuild.platforms.cuda.host import module_of_plugin

    library = plugin()
    if library is None:
        msg = "no CUDA plugin is installed\nInstall it: pip install jax-cuda13-plugin"
        raise AotbuildError(msg)
    _load_libraries()
    try:
        return private.make_cuda_client(str(library), module_of_plugin("cuda_plugin_extension"))
    except Exception as err:  # jaxlib raises RuntimeError and its own
        msg = f"CUDA cannot be used\n  found    {type(err).__name__}: {err}"
        raise AotbuildError(msg) from err


def _load_libraries() -> None:
    try:
        spec = find_spec("nvidia")
    except (ModuleNotFoundError, ValueError):
        return
    folders = [Path(root) for root in (spec.submodule_search_locations or ())] if spec else []
    for name in _LIBRARIES:
        found = [path for root in folders for path in sorted(root.glob(f"*/lib/{name}.so.*"))]
        for path in found[:1]:
            ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)


class Driver:
    """What is used of NVIDIA's driver: a copy from a GPU to the host.

    Only jaxlib's own way to do that imports jax. The functions are those of
    the CUDA Driver API, version 2, and of its primary contexts, which XLA uses too.
    """

    def __init__(self, library: Any) -> None:
        self._library = library
        self._contexts: dict[int, Any] = {}

    def copy(self, pointer: int, size: int, ordinal: int) -> Any:
        """Return bytes of a GPU's memory as a numpy array."""
        host = np.empty(size, np.uint8)
        if not size:
            return host
        call, old = self._call, ctypes.c_void_p()
        call("cuCtxPushCurrent_v2", self._context(ordinal))
        try:
            target, source = ctypes.c_void_p(host.ctypes.data), ctypes.c_uint64(pointer)
            call("cuMemcpyDtoH_v2", target, source, ctypes.c_size_t(size))
        finally:
            call("cuCtxPopCurrent_v2", ctypes.byref(old))
        return host

    def _context(self, ordinal: int) -> Any:
        if ordinal not in self._contexts:
            device, context = ctypes.c_int(), ctypes.c_void_p()
            self._call("cuInit", ctypes.c_uint(0))
            self._call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(ordinal))
            self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
            self._contexts[ordinal] = context
        return self._contexts[ordinal]

    def _call(self, name: str, *arguments: Any) -> None:
        error = getattr(self._library, name)(*arguments)
        if error:
            msg = f"the CUDA driver: {name} failed with error {error}"
            raise AotbuildError(msg)


@cache
def driver() -> Driver:
    """Return NVIDIA's driver."""
    return Driver(ctypes.CDLL("libcuda.so.1"))


class Cuda(Client):
    """See `Client`."""

    aliases = ("gpu",)

    def is_default(self) -> bool:
        return any(map(os.path.exists, OF_GPUS)) and plugin() is not None

    def make(self, private: Any) -> Any:
        return make_client(private)

    def copy(self, pointer: int, size: int, ordinal: int) -> Any:
        return driver().copy(pointer, size, ordinal)


PLATFORM = Cuda()
