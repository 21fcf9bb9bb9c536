"""The facts of this machine's GPUs from NVIDIA's driver, through ctypes: no CUDA toolkit, no jax.

The formulas are XLA's own (stream_executor/cuda/cuda_executor.cc, CreateDeviceDescription), so a
preset describes the GPU to XLA as the GPU itself does.
"""

from __future__ import annotations

import ctypes
from typing import Any

from aotbuild.errors import NoGpu
from aotbuild.platforms.cuda.presets import GpuPreset

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


class Driver:
    """The initialized driver library; raises NoGpu if there is none."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self._call("cuInit", ctypes.c_uint(0))

    @property
    def device_count(self) -> int:
        """How many GPUs this process sees."""
        count = ctypes.c_int()
        self._call("cuDeviceGetCount", ctypes.byref(count))
        return count.value

    def describe(self, number: int, name: str) -> GpuPreset:
        """Return the facts of a GPU, by its number, as a preset of the given name."""
        count = self.device_count
        if not 0 <= number < count:
            reason = f"there is no GPU {number}; this process sees {count}, counted from 0"
            raise NoGpu(reason)
        device = ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(number))
        major, minor = self._attribute(device, _MAJOR), self._attribute(device, _MINOR)
        suffix = "a" if major >= 9 else ""
        facts: dict[str, int | float] = {
            "fpus_per_core": fpus_per_core(major, minor),
            "clock_rate_ghz": self._attribute(device, _CLOCK_KHZ) / 1e6,
            "memory_bandwidth": self._bandwidth(device),
            "device_memory_size": self._memory(device),
            **{fact: self._attribute(device, code) for fact, code in _ATTRIBUTES.items()},
        }
        return GpuPreset(name, self._name(device), f"{major}.{minor}{suffix}", tuple(facts.items()))

    def _bandwidth(self, device: ctypes.c_int) -> int:
        """Return bytes per second: two transfers in each cycle of the memory's clock."""
        clock_hz = self._attribute(device, _MEMORY_CLOCK_KHZ) * 1000
        return 2 * clock_hz * (self._attribute(device, _BUS_WIDTH_BITS) // 8)

    def _memory(self, device: ctypes.c_int) -> int:
        size = ctypes.c_size_t()
        self._call("cuDeviceTotalMem_v2", ctypes.byref(size), device)
        return size.value

    def _name(self, device: ctypes.c_int) -> str:
        text = ctypes.create_string_buffer(256)
        self._call("cuDeviceGetName", text, ctypes.c_int(len(text)), device)
        return text.value.decode("utf-8", "replace")

    def _attribute(self, device: ctypes.c_int, code: int) -> int:
        value = ctypes.c_int()
        self._call("cuDeviceGetAttribute", ctypes.byref(value), ctypes.c_int(code), device)
        return value.value

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, name)(*arguments)
        if code != 0:
            reason = f"{name} of NVIDIA's driver failed: {self._words(code)}"
            raise NoGpu(reason)

    def _words(self, code: int) -> str:
        text = ctypes.c_char_p()
        self._library.cuGetErrorString(ctypes.c_int(code), ctypes.byref(text))
        return f"error {code}, {(text.value or b'unknown').decode('utf-8', 'replace')}"


def open_driver() -> Driver:
    """Load NVIDIA's driver; raises NoGpu if there is none."""
    try:
        return Driver(ctypes.CDLL(LIBRARY))
    except OSError as err:
        reason = f"NVIDIA's driver is not here: {err}"
        raise NoGpu(reason) from err


def fpus_per_core(major: int, minor: int) -> int:
    """Return the FP32 units of a multiprocessor, as XLA has them (fpus_per_core there)."""
    halved = major == 7 or (major, minor) in ((6, 0), (8, 0))
    return 64 if halved else 128
