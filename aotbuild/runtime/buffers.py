"""Buffers: files in memory, aligned so that XLA:CPU takes them without a copy. Imports no jax.

Processes that map the same file share its memory. But a mapping is the file itself, so a later
write to the file changes what is read here (docs/explanation/architecture.md, "Threats");
`may_be_mapped` is the rule that follows from it.
"""

from __future__ import annotations

import os
import stat
import sys
from typing import IO, TYPE_CHECKING, Any

from aotbuild.format.tensors import ALIGNMENT

if TYPE_CHECKING:
    import mmap

# Below this a copy costs no more than a mapping. Above it a mapping saves memory, and 10 ms of 68
# for 40 MB (the part `constants` of `benchmarks/preload.py`).
SMALLEST_MAPPED = 64 * 1024
# Before Python 3.13 a mapping keeps a descriptor open, and the limit is often 1,024 per process.
_KEEPS_DESCRIPTOR = sys.version_info < (3, 13)
_MOST_DESCRIPTORS = 256
_IS_POSIX = os.name == "posix"


class Mapper:
    """Reads files into memory, mapped where that is safe and worth it."""

    def __init__(self, *, maps: bool = True) -> None:
        self._left = _MOST_DESCRIPTORS if maps and _IS_POSIX else 0

    def view(self, file: IO[bytes], size: int) -> memoryview:
        """Return a file of `size` bytes, aligned to 64; one byte more if the file is longer."""
        return (self._map(file, size) if self._left else None) or copied(file, size)

    def _map(self, file: IO[bytes], size: int) -> memoryview | None:
        mapping = mapped(file, size) if size >= SMALLEST_MAPPED else None
        if mapping is not None and _KEEPS_DESCRIPTOR:
            self._left -= 1
        return mapping


def mapped(file: IO[bytes], size: int) -> memoryview | None:
    """Return a file of `size` bytes, mapped; None if it must not or cannot be."""
    try:
        descriptor = file.fileno()
        if not _IS_POSIX or not may_be_mapped(os.fstat(descriptor), size):
            return None
        return memoryview(_map(descriptor, size))
    except (OSError, ValueError):
        # A member of a wheel has no descriptor, some file systems cannot map files, and the file
        # may have become shorter.
        return None


def may_be_mapped(facts: os.stat_result, size: int) -> bool:
    """Return whether a file is regular, of `size` bytes, and not writable by everybody."""
    is_file, others_write = stat.S_ISREG(facts.st_mode), facts.st_mode & stat.S_IWOTH
    return is_file and facts.st_size == size and not others_write


def _map(descriptor: int, size: int) -> mmap.mmap:
    import mmap

    options: dict[str, Any] = {"flags": mmap.MAP_PRIVATE, "prot": mmap.PROT_READ}
    if not _KEEPS_DESCRIPTOR:
        options["trackfd"] = False
    return mmap.mmap(descriptor, size, **options)


def copied(file: IO[bytes], size: int) -> memoryview:
    """Return at most `size + 1` bytes of a file, aligned to 64."""
    buffer = memoryview(aligned(size + 1))
    count = 0
    # A member of a wheel may return fewer bytes than asked for.
    while count <= size and (more := file.readinto(buffer[count:])):  # type: ignore[attr-defined]
        count += more
    return buffer[:count]


def aligned(size: int) -> Any:
    """Return an uninitialized uint8 array, aligned to 64 bytes."""
    import numpy as np

    space = np.empty(size + ALIGNMENT, np.uint8)
    start = -space.__array_interface__["data"][0] % ALIGNMENT
    return space[start : start + size]


def is_aligned(array: Any) -> bool:
    """Return whether an array is aligned to 64 bytes."""
    return bool(array.__array_interface__["data"][0] % ALIGNMENT == 0)


def of_byte_order(value: object) -> str | None:
    """Return what to do about an array whose bytes are in another order than this machine's."""
    dtype = getattr(value, "dtype", None)
    if getattr(dtype, "isnative", True) or getattr(dtype, "kind", "") not in "iufc":
        return None
    return 'Convert it to the byte order of this machine: x.astype(x.dtype.newbyteorder("=")).'
