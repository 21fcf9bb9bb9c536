"""One order of XLA's hash tables, whatever its process compiled before.

Each hash table of Abseil gets a seed, which decides the order of its entries. A thread counts seeds
up: the next is the last one + 0xad53 (16 bits), and the first an address. XLA:CPU takes the buffers
of a small loop from such a table and passes them to the loop's kernel in that order, so the machine
code of a `lax.scan` or of `jax.random` depended on chance and on what its process had done before.

`fix_seeds` changes the instruction that adds into one that sets, so that all tables have one seed.
It does so in the memory of this process, in each of the 8 or 9 functions that make tables, one byte
in each; the file stays as it is. Every number of 16 bits is a valid seed, and code that follows
uses no other bits. Only processes that compile for a build call it, and AOTBUILD_FIX_HASHES=off
keeps them from it. Why, and what was tried instead: docs/decisions/0046-reproducible-bytes.md.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

# x86-64: add eax, 0xffffad53; mov [rdx], ax. With another first byte: mov eax, 0xffffad53.
_ADDS = bytes.fromhex("0553adffff668902")
_SETS = 0xB8
# By version of jaxlib: how often the instruction is in its library, and over how many bytes. The
# wheels for all versions of Python agree.
_KNOWN = {
    "0.10.2": (8, 6345),
    "0.11.0": (9, 6762),
    "0.11.1": (9, 6762),
    "0.11.2": (9, 6762),
    "0.12.0": (9, 6618),
    "0.12.0.1": (9, 6618),
}
# What a record says of the order of hash tables, and so of buffers in the kernels of small loops.
FIXED, ANY = "fixed", "of the process"
_RUN, _CHANGE = 0x5, 0x7  # PROT_READ | PROT_EXEC, and PROT_WRITE


def can_fix(jaxlib: str) -> bool:
    """Return whether seeds can be fixed here, if the code is that of the known wheels."""
    return sys.platform == "linux" and platform.machine() == "x86_64" and jaxlib in _KNOWN


def fix_seeds(library: str, jaxlib: str) -> bool:
    """Fix the seeds in a loaded library, by its file name; return whether they are fixed.

    Nothing is changed where this version of jaxlib is unknown, where the code is not exactly what
    is known of it, or where the system does not allow it.
    """
    if not can_fix(jaxlib):
        return False
    with suppress(OSError):
        places = list(_places(library))
        return _is_known(places, jaxlib) and _change(places)
    return False


def _is_known(places: Sequence[int], jaxlib: str) -> bool:
    return bool(places) and (len(places), places[-1] - places[0]) == _KNOWN[jaxlib]


def _places(library: str) -> Iterator[int]:
    """Yield the addresses of the instruction in the code of a library."""
    find = ctypes.CDLL(None).memmem
    find.restype = ctypes.c_void_p
    find.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t)
    for start, end in _code(library):
        at = find(start, end - start, _ADDS, len(_ADDS))
        while at:
            yield at
            at = find(at + 1, end - at - 1, _ADDS, len(_ADDS))


def _code(library: str) -> Iterator[tuple[int, int]]:
    """Yield where the code of a library begins and ends in memory."""
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        words = line.split(maxsplit=5)
        if len(words) == 6 and words[1].startswith("r-x") and Path(words[5]).name == library:
            start, _, end = words[0].partition("-")
            yield int(start, 16), int(end, 16)


def _change(places: Sequence[int]) -> bool:
    """Change one byte at each place, if all of them can be."""
    protect = ctypes.CDLL(None).mprotect
    protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    pages = sorted({place - place % mmap.PAGESIZE for place in places})
    try:
        if any(protect(page, mmap.PAGESIZE, _CHANGE) for page in pages):
            return False
        for place in places:
            ctypes.c_ubyte.from_address(place).value = _SETS
        return True
    finally:
        for page in pages:
            protect(page, mmap.PAGESIZE, _RUN)
