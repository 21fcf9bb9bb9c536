"""The layout of a package on disk: where kept stages are, and atomic file writes."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aotbuild.spec.record import Blob, Record

# Each stage, in the order of a compilation, and the kind of its blob. (The kind `stablehlo` is a
# serialized `jax.export.Exported`.)
KINDS = {"jaxpr": "jaxpr", "stablehlo": "mlir", "hlo": "hlo", "cost": "json", "memory": "json"}
STAGES = tuple(KINDS)

# The key in the index's header, present only if stages were kept, and its values.
HEADER_KEY = "stages"
BESIDE = "beside"
WHEEL = "wheel"

_SUFFIX = ".stages.zip"


def packaged_blobs(record: Record, header: Mapping[str, Any]) -> tuple[Blob, ...]:
    """Return every blob of a record in the package, including kept stages that are packaged."""
    kept = record.stages if header.get(HEADER_KEY) == WHEEL else ()
    return (*record.blobs(), *(blob for _, blob in kept))


def stages_path(place: Path) -> Path:
    """Return the path of the file of kept stages beside a wheel or an `_aot` folder.

    Raises ValueError for `.`, which has no name.
    """
    if place.suffix == ".whl":
        return place.with_suffix(_SUFFIX)
    return place.with_name(place.name + _SUFFIX)


# Not tempfile.mkstemp, whose files only their owner can read: here the system applies the umask.
# O_EXCL follows no link and opens no existing file.
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
_MODE = 0o644
# Characters of the file's name in the temporary one: a name may have 255 bytes.
_LONGEST = 50


def write_whole(path: Path, data: bytes) -> None:
    """Write a file atomically: all of it, or the old one stays. Its mode is 0o644 less the umask.

    Raises OSError, and leaves no temporary file behind.
    """
    temporary = path.with_name(f".{path.name[:_LONGEST]}.{secrets.token_hex(8)}")
    try:
        number = os.open(temporary, _NEW, _MODE)
    except OSError as err:  # name the requested file, not the temporary one
        raise OSError(err.errno, err.strerror, str(path)) from err
    try:
        with os.fdopen(number, "wb") as file:
            file.write(data)
        move_whole(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def move_whole(finished: Path, path: Path) -> None:
    """Move a finished file into its place, on the same file system; raises OSError."""
    with finished.open("rb") as file:
        os.fsync(file.fileno())
    finished.replace(path)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Flush the names in a folder to disk, on systems that support it."""
    with contextlib.suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
