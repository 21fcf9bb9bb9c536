"""The size of a package beside PyPI's limit for one file."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from pathlib import Path

from aotbuild.format.layout import PYPI_LIMIT

_CHUNK = 1 << 20


def size_note(size: int, what: str, remedy: str = "") -> str | None:
    """Return a note about a wheel of that many bytes; None if it is small enough.

    It ends with `remedy`, that of a package.
    """
    if size <= PYPI_LIMIT:
        return None
    return (
        f"{what} has {size / 1e6:.0f} MB; PyPI's default limit for one file is 100 MB. "
        f"`aotbuild split` makes a base wheel and one for each family of targets{remedy}"
    )


def compressed_size(files: Iterable[Path]) -> int:
    """Return the bytes that files take in a wheel; compress them only if that could matter."""
    files = list(files)
    plain = sum(file.stat().st_size for file in files)
    return plain if plain <= PYPI_LIMIT else sum(map(_deflated, files))


def _deflated(file: Path) -> int:
    # Raw deflate at the default level, as zipfile and hatchling do.
    packer, size = zlib.compressobj(wbits=-zlib.MAX_WBITS), 0
    with file.open("rb") as opened:
        while chunk := opened.read(_CHUNK):
            size += len(packer.compress(chunk))
    return size + len(packer.flush())
