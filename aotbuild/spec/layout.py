"""The layout of a package on disk: kept stages, and files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aotbuild.spec.record import Blob, Record

# Each stage, in the order of a compilation, and the kind of its blob. `stablehlo` is another kind:
# a serialized `jax.export.Exported`.
KINDS = {"jaxpr": "jaxpr", "stablehlo": "mlir", "hlo": "hlo", "cost": "json", "memory": "json"}
STAGES = tuple(KINDS)

# The key of the index's header, which is there only if something was kept, and its values.
HEADER_KEY = "stages"
BESIDE = "beside"
WHEEL = "wheel"

_SUFFIX = ".stages.zip"


def packaged_blobs(record: Record, header: Mapping[str, Any]) -> tuple[Blob, ...]:
    """Return every blob that is in the package for a record, kept stages too where they are."""
    kept = record.stages if header.get(HEADER_KEY) == WHEEL else ()
    return (*record.blobs(), *(blob for _, blob in kept))


def stages_path(place: Path) -> Path:
    """Return the file of kept stages that belongs beside a wheel or an `_aot` folder.

    ValueError for `.`, which does not say how the folder is called.
    """
    if place.suffix == ".whl":
        return place.with_suffix(_SUFFIX)
    return place.with_name(place.name + _SUFFIX)


# Not tempfile.mkstemp, which makes a file that its owner alone can read: here the system takes the
# umask off the mode. O_EXCL follows no link and takes no file that is there.
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
_MODE = 0o644
# Of the name of the file in that of the temporary one: a name may have 255 bytes.
_LONGEST = 50


def write_whole(path: Path, data: bytes) -> None:
    """Write the whole file, or leave what was there; its mode is 0o644 less the umask.

    OSError says why it could not; nothing is left behind then.
    """
    temporary = path.with_name(f".{path.name[:_LONGEST]}.{secrets.token_hex(8)}")
    try:
        number = os.open(temporary, _NEW, _MODE)
    except OSError as err:  # about the file that was asked for, not about one that nobody knows
        raise OSError(err.errno, err.strerror, str(path)) from err
    try:
        with os.fdopen(number, "wb") as file:
            file.write(data)
        move_whole(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def move_whole(finished: Path, path: Path) -> None:
    """Put a finished file in the place of another, in the same file system; OSError if it fails."""
    with finished.open("rb") as file:
        os.fsync(file.fileno())
    finished.replace(path)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on disk; not every system can do that."""
    with contextlib.suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
