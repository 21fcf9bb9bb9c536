"""How big a wheel will be, as far as that is known, and when that is too big for PyPI."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from pathlib import Path

# What PyPI takes for one file unless a project asked for more: "100 MB" in its own message. Should
# it count in powers of two, this is a little early.
# https://docs.pypi.org/project-management/storage-limits
PYPI_LIMIT = 100_000_000
_CHUNK = 1 << 20


def size_note(size: int, what: str) -> str | None:
    """Return what to tell the owner of a wheel with that many bytes; None if it is small enough."""
    if size <= PYPI_LIMIT:
        return None
    return (
        f"{what} has {size / 1e6:.0f} MB; PyPI's default limit for one file is 100 MB. "
        "`aotbuild split` makes a base wheel and one for each family of targets"
    )


def compressed_size(files: Iterable[Path]) -> int:
    """Return the bytes of files in a wheel; they are compressed here only if that could matter."""
    files = list(files)
    plain = sum(file.stat().st_size for file in files)
    return plain if plain <= PYPI_LIMIT else sum(map(_deflated, files))


def _deflated(file: Path) -> int:
    # As zipfile and hatchling do it: raw deflate with the usual level.
    packer, size = zlib.compressobj(wbits=-zlib.MAX_WBITS), 0
    with file.open("rb") as opened:
        while chunk := opened.read(_CHUNK):
            size += len(packer.compress(chunk))
    return size + len(packer.flush())
