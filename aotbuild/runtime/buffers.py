"""Buffers: the bytes of a file in memory that XLA:CPU takes without a copy. Imports no jax.

A mapping costs no memory of its own: processes that map one file share it. But it is the file and
no copy of it, so what is written into that file later is read from the mapping too.
`docs/explanation/threats.md` says when that matters, and `may_be_mapped` what follows.
"""

from __future__ import annotations

import math
import os
import stat
import sys
from typing import IO, TYPE_CHECKING, Any

from aotbuild.spec.tensors import ALIGNMENT

if TYPE_CHECKING:
    import mmap

# Below it a copy costs no more than a mapping; above, a mapping saves memory, and for 40 MB 10 ms
# of 68 (`benchmarks/preload.py`, its part `constants`).
SMALLEST_MAPPED = 64 * 1024
# Until Python 3.13 a mapping keeps a descriptor open, and a process may often have 1,024.
_KEEPS_DESCRIPTOR = sys.version_info < (3, 13)
_MOST_DESCRIPTORS = 256
_IS_POSIX = os.name == "posix"


class Mapper:
    """Reads files into memory, mapped where that is safe and worth it."""

    def __init__(self, *, maps: bool = True) -> None:
        self._left = _MOST_DESCRIPTORS if maps and _IS_POSIX else 0

    def view(self, file: IO[bytes], size: int) -> memoryview:
        """Return a file of that size, from a multiple of 64 on; of a longer one, a byte more."""
        return (self._map(file, size) if self._left else None) or copied(file, size)

    def _map(self, file: IO[bytes], size: int) -> memoryview | None:
        if size < SMALLEST_MAPPED:
            return None
        try:
            descriptor = file.fileno()
            if not may_be_mapped(os.fstat(descriptor), size):
                return None
            mapping = _map(descriptor, size)
        except (OSError, ValueError):
            # A member of a wheel has no descriptor, some file systems cannot be mapped, and a file
            # may have become shorter.
            return None
        if _KEEPS_DESCRIPTOR:
            self._left -= 1
        return memoryview(mapping)


def may_be_mapped(facts: os.stat_result, size: int) -> bool:
    """Return whether a file is what was expected, and nobody but its owner's kin may change it."""
    is_file, others_write = stat.S_ISREG(facts.st_mode), facts.st_mode & stat.S_IWOTH
    return is_file and facts.st_size == size and not others_write


def _map(descriptor: int, size: int) -> mmap.mmap:
    import mmap

    options: dict[str, Any] = {"flags": mmap.MAP_PRIVATE, "prot": mmap.PROT_READ}
    if not _KEEPS_DESCRIPTOR:
        options["trackfd"] = False
    return mmap.mmap(descriptor, size, **options)


def copied(file: IO[bytes], size: int) -> memoryview:
    """Return at most `size + 1` bytes of a file, from a multiple of 64 on."""
    buffer = memoryview(aligned(size + 1))
    count = 0
    # A member of a wheel gives less than it is asked for.
    while count <= size and (more := file.readinto(buffer[count:])):  # type: ignore[attr-defined]
        count += more
    return buffer[:count]


def aligned(size: int) -> Any:
    """Return an uninitialized uint8 array whose first byte is at a multiple of 64."""
    import numpy as np

    space = np.empty(size + ALIGNMENT, np.uint8)
    start = -space.__array_interface__["data"][0] % ALIGNMENT
    return space[start : start + size]


def zeros(shape: tuple[int, ...], dtype: Any, *, apart: int = 0) -> Any:
    """Return zeros from a multiple of 64 on; on Linux they take no memory until written to.

    `apart` is how many bytes behind that multiple they begin: 16 is where numpy's own arrays do.
    """
    import numpy as np

    size = math.prod(shape) * dtype.itemsize
    space = np.zeros(size + 2 * ALIGNMENT, np.uint8)
    start = -space.__array_interface__["data"][0] % ALIGNMENT + apart
    return space[start : start + size].view(dtype).reshape(shape)


def is_aligned(array: Any) -> bool:
    """Return whether the first byte of an array is at a multiple of 64."""
    return bool(array.__array_interface__["data"][0] % ALIGNMENT == 0)
