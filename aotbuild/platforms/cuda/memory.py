"""A GPU whose memory is full: how much is free, and which processes hold it.

NVML (libnvidia-ml.so.1) comes with NVIDIA's driver and knows the processes; without it, the driver
knows the sizes. Written after their headers (nvml.h, cuda.h), tried with stand-ins of both only.
"""

from __future__ import annotations

import ctypes
import os
import re
from dataclasses import dataclass
from typing import Any

from aotbuild.errors import AotbuildError
from aotbuild.platforms.cuda.driver import open_driver

# What decides how the client takes memory, as jaxlib 0.10.2 and 0.12.0.1 read it
# (xla_client.generate_pjrt_gpu_plugin_options). Empty is unset there.
VARIABLES = (
    *("XLA_PYTHON_CLIENT_PREALLOCATE", "XLA_CLIENT_MEM_FRACTION"),
    *("XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_ALLOCATOR"),
)
_NVML = "libnvidia-ml.so.1"
# XLA's allocator, and the driver.
_FULL = re.compile(r"RESOURCE_EXHAUSTED|out of memory|CUDA_ERROR_OUT_OF_MEMORY", re.IGNORECASE)
# A library of NVIDIA that cannot make its handle, which needs some memory but does not say so.
_HANDLE = re.compile(
    r"Failed to initialize (BLAS|BLASLT|DNN) support|DNN library initialization failed"
    r"|CU(BLAS|DNN|SOLVER)_STATUS_(ALLOC_FAILED|NOT_INITIALIZED|INTERNAL_ERROR)"
)
_ENOUGH_FOR_HANDLES = 1 << 30
_MOST_PROCESSES = 64
_MIB = 1 << 20
_UNKNOWN = (1 << 64) - 1


@dataclass(frozen=True)
class Memory:
    """Bytes of a GPU's memory, and those that each process holds, None where NVML does not say."""

    free: int
    total: int
    holders: tuple[tuple[int, int | None], ...] = ()

    def __str__(self) -> str:
        text = f"{_mib(self.free)} free of {_mib(self.total)}"
        return "; ".join((text, *(self._holder(*holder) for holder in self.holders)))

    def _holder(self, pid: int, size: int | None) -> str:
        name = f"process {pid}" + (" (this one)" if pid == os.getpid() else "")
        return f"{name} holds {'an unknown part' if size is None else _mib(size)}"


def shortage(error: str, number: int) -> str | None:
    """Return the message for an error of a GPU that is full, by its number; None for another error.

    A handle that cannot be made has other causes too, such as a missing library: it counts only if
    there is little memory.
    """
    is_full = bool(_FULL.search(error))
    if not is_full and not _HANDLE.search(error):
        return None
    memory = memory_of(number)
    if not is_full and (memory is None or memory.free > _ENOUGH_FOR_HANDLES):
        return None
    found = memory or "a full GPU; neither NVML nor the driver says by whom"
    return (
        f"GPU {number} has too little free memory\n"
        f"  expected memory for it\n  found    {found}\n  it said  {error}\n"
        "A process that uses jax reserves 75 % of a GPU when it starts: set "
        "XLA_PYTHON_CLIENT_PREALLOCATE=false, or XLA_CLIENT_MEM_FRACTION to a share such as 0.3, "
        "in each process on it. Or choose another GPU with CUDA_VISIBLE_DEVICES."
    )


def memory_of(number: int) -> Memory | None:
    """Return the memory of a GPU; None if neither NVML nor the driver can be asked."""
    try:
        driver = open_driver()
        return _by_nvml(driver.bus_id(number)) or Memory(*driver.memory(number))
    except (AotbuildError, AttributeError):  # an old driver lacks a function
        return None


class _Size(ctypes.Structure):
    """nvmlMemory_t."""

    _fields_ = tuple((name, ctypes.c_ulonglong) for name in ("total", "free", "used"))


class _Process(ctypes.Structure):
    """nvmlProcessInfo_t of nvmlDeviceGetComputeRunningProcesses_v3."""

    _fields_ = (
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


def _by_nvml(bus_id: bytes) -> Memory | None:
    try:
        library = ctypes.CDLL(_NVML)
    except OSError:
        return None
    if library.nvmlInit_v2():
        return None
    try:
        device, size = ctypes.c_void_p(), _Size()
        if library.nvmlDeviceGetHandleByPciBusId_v2(bus_id, ctypes.byref(device)):
            return None
        if library.nvmlDeviceGetMemoryInfo(device, ctypes.byref(size)):
            return None
        return Memory(size.free, size.total, _holders(library, device))
    finally:
        library.nvmlShutdown()


def _holders(library: Any, device: ctypes.c_void_p) -> tuple[tuple[int, int | None], ...]:
    """Return (pid, bytes) of the processes on a GPU, the largest first; none in some containers."""
    count, found = ctypes.c_uint(_MOST_PROCESSES), (_Process * _MOST_PROCESSES)()
    if library.nvmlDeviceGetComputeRunningProcesses_v3(device, ctypes.byref(count), found):
        return ()
    known = found[: count.value]
    sizes = [(each.pid, None if each.used == _UNKNOWN else each.used) for each in known]
    return tuple(sorted(sizes, key=lambda holder: -(holder[1] or 0)))


def _mib(size: int) -> str:
    return f"{size // _MIB:,} MiB"
