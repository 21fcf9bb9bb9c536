"""Blobs: their bytes, checked against the size and SHA-256 in the record before anything else."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from aotbuild.errors import DamagedBlob
from aotbuild.format.canonical import sha256_hex
from aotbuild.format.record import Blob
from aotbuild.runtime.source import (
    JoinedSource,
    Source,
    is_replaced,
    reason_of,
    refuse_pointer,
)

if TYPE_CHECKING:
    from aotbuild.runtime.buffers import Mapper

_MEMORY = (
    "Give the process more memory; or reinstall the wheel, if it was smaller when it was built."
)

_RESTART = (
    "The package was installed again, or removed, while this process ran: restart the process."
)

B = TypeVar("B", bytes, memoryview)


def read_blob(source: Source, blob: Blob) -> bytes:
    """Return the bytes of a blob; DamagedBlob unless size and SHA-256 are those of the record."""
    return _check_blob(source, blob, lambda: source.read(blob.path, blob.size + 1))


def view_blob(source: Source, blob: Blob, mapper: Mapper) -> memoryview:
    """Return a blob in memory, aligned to 64, read-only if mapped; DamagedBlob as `read_blob`."""
    return _check_blob(source, blob, lambda: source.view(blob.path, blob.size, mapper))


def _check_blob(source: Source, blob: Blob, read: Callable[[], B]) -> B:
    expected = f"{blob.size} bytes with SHA-256 {blob.sha256}"
    try:
        data = read()
    except OSError as err:
        raise DamagedBlob(_place(source, blob), expected, reason_of(err), _remedy(source)) from err
    except MemoryError as err:
        found = "a file that does not fit into the memory of this process"
        raise DamagedBlob(_place(source, blob), expected, found, _MEMORY) from err
    found = f"{len(data)} bytes" if len(data) < blob.size else f"more than {blob.size} bytes"
    if len(data) == blob.size:
        digest = sha256_hex(data)
        if digest == blob.sha256:
            return data
        found = f"{len(data)} bytes with SHA-256 {digest}"
    refuse_pointer(data, _place(source, blob), expected)
    raise DamagedBlob(_place(source, blob), expected, found, _remedy(source))


def _remedy(source: Source) -> str:
    return _RESTART if is_replaced(source) else ""


def _place(source: Source, blob: Blob) -> str:
    holder = source.holding(blob.path) if isinstance(source, JoinedSource) else source
    return f"{holder.place}/{blob.path}"
