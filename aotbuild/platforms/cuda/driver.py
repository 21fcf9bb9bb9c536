"""NVIDIA's driver through ctypes: facts of GPUs, their memory, copies. No CUDA toolkit, no jax.

The facts follow XLA's own formulas (stream_executor/cuda/cuda_executor.cc,
CreateDeviceDescription), so a preset describes the GPU to XLA as the GPU itself does. The functions
are those of the CUDA Driver API.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from aotbuild.errors import AotbuildError, NoGpu

LIBRARY = "libcuda.so.1"
# CUdevice_attribute of cuda.h.
_ATTRIBUTES = {
    "threads_per_block_limit": 1,
    "block_dim_limit_x": 5,
    "block_dim_limit_y": 6,
    "block_dim_limit_z": 7,
    "shared_memory_per_block": 8,
    "threads_per_warp": 10,
    "registers_per_block_limit": 12,
    "core_count": 16,
    "l2_cache_size": 38,
    "threads_per_core_limit": 39,
    "shared_memory_per_core": 81,
    "registers_per_core_limit": 82,
    "shared_memory_per_block_optin": 97,
}
_CLOCK_KHZ, _MEMORY_CLOCK_KHZ, _BUS_WIDTH_BITS = 13, 36, 37
_MAJOR, _MINOR = 75, 76


@dataclass(frozen=True)
class GpuPreset:
    """The facts of a GPU: `facts` are numbers, by XLA's names for them.

    `name` is the target's detail, `device_kind` jax's name of the device.
    """

    name: str
    device_kind: str
    capability: str
    facts: tuple[tuple[str, int | float], ...]


class Driver:
    """The initialized driver library; raises NoGpu if it finds no GPU.

    GPUs are numbered as this process sees them, from 0 (`local_hardware_id` of a jaxlib device).
    """

    def __init__(self, library: Any) -> None:
        self._library = library
        self._contexts: dict[int, Any] = {}
        self._ask("cuInit", ctypes.c_uint(0))

    @property
    def device_count(self) -> int:
        """How many GPUs this process sees."""
        count = ctypes.c_int()
        self._ask("cuDeviceGetCount", ctypes.byref(count))
        return count.value

    @property
    def cuda(self) -> tuple[int, int]:
        """The newest CUDA version that the driver serves, as (13, 0)."""
        version = ctypes.c_int()
        self._ask("cuDriverGetVersion", ctypes.byref(version))
        return version.value // 1000, version.value % 1000 // 10

    def describe(self, number: int, name: str) -> GpuPreset:
        """Return the facts of a GPU, by its number, as a preset of the given name."""
        count = self.device_count
        if not 0 <= number < count:
            reason = f"there is no GPU {number}; this process sees {count}, counted from 0"
            raise NoGpu(reason)
        device = self._device(number)
        major, minor = self._attribute(device, _MAJOR), self._attribute(device, _MINOR)
        suffix = "a" if major >= 9 else ""
        facts: dict[str, int | float] = {
            "fpus_per_core": fpus_per_core(major, minor),
            "clock_rate_ghz": self._attribute(device, _CLOCK_KHZ) / 1e6,
            "memory_bandwidth": self._bandwidth(device),
            "device_memory_size": self._memory_size(device),
            **{fact: self._attribute(device, code) for fact, code in _ATTRIBUTES.items()},
        }
        return GpuPreset(name, self._name(device), f"{major}.{minor}{suffix}", tuple(facts.items()))

    def memory(self, number: int) -> tuple[int, int]:
        """Return how many bytes of a GPU's memory are free, and all of them."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        with self._in_context(number):
            self._do("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def copy(self, pointer: int, size: int, number: int) -> Any:
        """Return bytes of a GPU's memory as a numpy array.

        jaxlib's own way to do that imports jax.
        """
        import numpy as np  # reading a manifest needs the driver, and has no numpy

        host = np.empty(size, np.uint8)
        if size:
            target, source = ctypes.c_void_p(host.ctypes.data), ctypes.c_uint64(pointer)
            with self._in_context(number):
                self._do("cuMemcpyDtoH_v2", target, source, ctypes.c_size_t(size))
        return host

    @contextmanager
    def _in_context(self, number: int) -> Iterator[None]:
        """Make a GPU's primary context, which XLA uses too, the thread's own for a while."""
        if number not in self._contexts:
            context = ctypes.c_void_p()
            self._do("cuDevicePrimaryCtxRetain", ctypes.byref(context), self._device(number))
            self._contexts[number] = context
        self._do("cuCtxPushCurrent_v2", self._contexts[number])
        try:
            yield
        finally:
            self._do("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def _bandwidth(self, device: ctypes.c_int) -> int:
        """Return bytes per second: two transfers in each cycle of the memory's clock."""
        clock_hz = self._attribute(device, _MEMORY_CLOCK_KHZ) * 1000
        return 2 * clock_hz * (self._attribute(device, _BUS_WIDTH_BITS) // 8)

    def _memory_size(self, device: ctypes.c_int) -> int:
        size = ctypes.c_size_t()
        self._ask("cuDeviceTotalMem_v2", ctypes.byref(size), device)
        return size.value

    def _name(self, device: ctypes.c_int) -> str:
        text = ctypes.create_string_buffer(256)
        self._ask("cuDeviceGetName", text, ctypes.c_int(len(text)), device)
        return text.value.decode("utf-8", "replace")

    def _attribute(self, device: ctypes.c_int, code: int) -> int:
        value = ctypes.c_int()
        self._ask("cuDeviceGetAttribute", ctypes.byref(value), ctypes.c_int(code), device)
        return value.value

    def _device(self, number: int) -> ctypes.c_int:
        device = ctypes.c_int()
        self._ask("cuDeviceGet", ctypes.byref(device), ctypes.c_int(number))
        return device

    def _ask(self, name: str, *arguments: Any) -> None:
        """Call a function of which a failure means that no GPU can be used."""
        if reason := self._failure(name, *arguments):
            raise NoGpu(reason)

    def _do(self, name: str, *arguments: Any) -> None:
        """Call a function of which a failure is that of one operation."""
        if reason := self._failure(name, *arguments):
            raise AotbuildError(reason)

    def _failure(self, name: str, *arguments: Any) -> str | None:
        code = getattr(self._library, name)(*arguments)
        return f"{name} of NVIDIA's driver failed: {self._words(code)}" if code else None

    def _words(self, code: int) -> str:
        text = ctypes.c_char_p()
        self._library.cuGetErrorString(ctypes.c_int(code), ctypes.byref(text))
        return f"error {code}, {(text.value or b'unknown').decode('utf-8', 'replace')}"


@cache
def open_driver() -> Driver:
    """Load NVIDIA's driver; raises NoGpu if there is none."""
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError as err:
        reason = f"NVIDIA's driver is not here: {err}"
        raise NoGpu(reason) from err
    return Driver(library)


def fpus_per_core(major: int, minor: int) -> int:
    """Return the FP32 units of a multiprocessor, as XLA has them (fpus_per_core there)."""
    halved = major == 7 or (major, minor) in ((6, 0), (8, 0))
    return 64 if halved else 128
