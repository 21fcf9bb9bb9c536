"""The number of CPUs that XLA believes in while it compiles, whatever machine builds.

XLA:CPU splits large loops when it compiles, by two numbers (tried on jaxlib 0.10.2 and 0.12.0.1):
the threads of its client, which PJRT_NPROC sets, bound loops that compute; the square root of what
`sched_getaffinity` counts also bounds loops that move memory. So a worker gets the variable, and a
library of one function that answers for libc's (docs/decisions/0039-cpu-counts.md).
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import MutableMapping

# XLA's first question to the kernel has room for as many.
MOST = 1024
# The square root bounds most loops, so this lets them be split in 4, and the others in 16.
DEFAULT = 16
THREADS_VARIABLE = "PJRT_NPROC"
PRELOAD_VARIABLE = "LD_PRELOAD"
_NAME = b"sched_getaffinity"

# int sched_getaffinity(pid_t, size_t size, cpu_set_t *mask): sets the lowest bits of the mask, as
# many as there are CPUs, clears the others and returns 0. One byte at a time: 8 bits, or the rest.
_X86_64 = bytes.fromhex(
    "b900000000"  # mov ecx, CPUS
    "4885f6"  # next: test rsi, rsi
    "7421"  # je end
    "b808000000"  # mov eax, 8
    "39c1"  # cmp ecx, eax
    "0f42c1"  # cmovb eax, ecx
    "29c1"  # sub ecx, eax
    "4531c0"  # xor r8d, r8d
    "410fabc0"  # bts r8d, eax
    "41ffc8"  # dec r8d
    "448802"  # mov [rdx], r8b
    "48ffc2"  # inc rdx
    "48ffce"  # dec rsi
    "ebda"  # jmp next
    "31c0"  # end: xor eax, eax
    "c3"  # ret
)
_AARCH64 = (
    0x52800003,  # movz w3, CPUS
    0xB4000161,  # next: cbz x1, end
    0x52800104,  # movz w4, 8
    0x6B04007F,  # cmp w3, w4
    0x1A843064,  # csel w4, w3, w4, lo
    0x4B040063,  # sub w3, w3, w4
    0x52800025,  # movz w5, 1
    0x1AC420A5,  # lsl w5, w5, w4
    0x510004A5,  # sub w5, w5, 1
    0x38001445,  # strb w5, [x2], 1
    0xD1000421,  # sub x1, x1, 1
    0x17FFFFF6,  # b next
    0x52800000,  # end: movz w0, 0
    0xD65F03C0,  # ret
)
# ELF's numbers of the architectures.
_MACHINES = {"x86_64": 62, "aarch64": 183}

# Places in the file. The dynamic section is mapped once more, writable, beyond the largest page.
_HEADERS, _SEGMENT, _SEGMENTS = 64, 56, 4
_HASH = _HEADERS + _SEGMENTS * _SEGMENT
_SYMBOLS = _HASH + 24
_STRINGS = _SYMBOLS + 48
_CODE = _STRINGS + 24
_DYNAMIC = _CODE + 64
_DYNAMIC_SIZE = 6 * 16
_PAGE = 0x10000
_LOAD, _DYNAMIC_SEGMENT, _STACK = 1, 2, 0x6474E551
_READ, _WRITE, _RUN = 4, 2, 1


def can_be_told(system: str, architecture: str) -> bool:
    """Return whether a worker on such a machine can be told another number of CPUs."""
    return system == "linux" and architecture in _MACHINES


def library(cpus: int, architecture: str) -> bytes:
    """Return a shared library (ELF) whose `sched_getaffinity` finds so many CPUs, 1 to `MOST`."""
    parts = [
        (0, _file_header(_MACHINES[architecture])),
        (_HEADERS, b"".join(_segments())),
        # One bucket with one symbol, the second; the first is always empty.
        (_HASH, struct.pack("<5I", 1, 2, 1, 0, 0)),
        (_SYMBOLS + 24, struct.pack("<IBBHQQ", 1, 0x12, 0, 1, _CODE, _DYNAMIC - _CODE)),
        (_STRINGS, b"\0" + _NAME + b"\0"),
        (_CODE, _code(cpus, architecture)),
        (_DYNAMIC, _dynamic()),
    ]
    data = bytearray(_DYNAMIC + _DYNAMIC_SIZE)
    for place, part in parts:
        data[place : place + len(part)] = part
    return bytes(data)


def found() -> int:
    """Return how many CPUs this process finds, asking as XLA does: with room for `MOST`."""
    if sys.platform != "linux":
        return os.cpu_count() or 1
    mask = (ctypes.c_ubyte * (MOST // 8))()
    ctypes.CDLL(None).sched_getaffinity(0, ctypes.c_size_t(len(mask)), mask)
    return int.from_bytes(mask, "little").bit_count()


def forget(environment: MutableMapping[str, str]) -> None:
    """Remove what only this process was to be told, so that what it starts finds the real CPUs."""
    environment.pop(THREADS_VARIABLE, None)
    first, _, others = environment.pop(PRELOAD_VARIABLE, "").partition(" ")
    kept = others if first.startswith("/proc/self/fd/") else f"{first} {others}".strip()
    if kept:
        environment[PRELOAD_VARIABLE] = kept


def _code(cpus: int, architecture: str) -> bytes:
    if architecture == "x86_64":
        return _X86_64[:1] + struct.pack("<I", cpus) + _X86_64[5:]
    return struct.pack(f"<{len(_AARCH64)}I", _AARCH64[0] | cpus << 5, *_AARCH64[1:])


def _file_header(machine: int) -> bytes:
    identity = b"\x7fELF" + bytes((2, 1, 1)) + bytes(9)
    shape = (_HEADERS, _SEGMENT, _SEGMENTS, 64, 0, 0)
    return identity + struct.pack("<HHIQQQI6H", 3, machine, 1, 0, _HEADERS, 0, 0, *shape)


def _segments() -> tuple[bytes, ...]:
    there = _PAGE + _DYNAMIC
    return (
        _segment(_LOAD, _READ | _RUN, 0, 0, _DYNAMIC, _PAGE),
        _segment(_LOAD, _READ | _WRITE, _DYNAMIC, there, _DYNAMIC_SIZE, _PAGE),
        _segment(_DYNAMIC_SEGMENT, _READ | _WRITE, _DYNAMIC, there, _DYNAMIC_SIZE, 8),
        # Without it, the loader would make the stack executable.
        _segment(_STACK, _READ | _WRITE, 0, 0, 0, 16),
    )


def _segment(kind: int, flags: int, offset: int, address: int, size: int, align: int) -> bytes:
    return struct.pack("<IIQQQQQQ", kind, flags, offset, address, address, size, size, align)


def _dynamic() -> bytes:
    tags = {4: _HASH, 5: _STRINGS, 6: _SYMBOLS, 10: len(_NAME) + 2, 11: 24, 0: 0}
    return b"".join(struct.pack("<QQ", *tag) for tag in tags.items())
