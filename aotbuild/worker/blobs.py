"""The blobs a worker writes, each once, under its digest; arrays as safetensors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aotbuild.spec.canonical import sha256_hex
from aotbuild.spec.layout import write_whole
from aotbuild.spec.record import Blob, Constant
from aotbuild.spec.tensors import write_tensors
from aotbuild.worker.avals import to_aval


@dataclass(frozen=True)
class BlobFolder:
    """Content-addressed files below `root`; no reader sees half of one."""

    root: Path

    def add(self, kind: str, data: bytes) -> Blob:
        """Write `data` unless its blob exists, and return the blob."""
        blob = Blob(kind, sha256_hex(data), len(data))
        final = self.root / blob.path
        if not final.exists():
            final.parent.mkdir(parents=True, exist_ok=True)
            write_whole(final, data)
        return blob

    def read(self, blob: Blob) -> bytes:
        """Return the bytes of a blob that was added."""
        return (self.root / blob.path).read_bytes()


TENSOR_NAME = "constant"
# numpy's own bools, integers and floats; safetensors lacks longdouble.
_KEPT_KINDS = "biuf"


def store_constants(values: list[Any], names: list[str], blobs: BlobFolder) -> tuple[Constant, ...]:
    """Write each constant in its own blob, so that equal arrays are stored once."""
    return tuple(
        Constant(to_aval(value.aval), store_array(np.asarray(value), blobs), name)
        for value, name in zip(values, names, strict=True)
    )


def store_array(array: Any, blobs: BlobFolder) -> Blob:
    """Write one array in its own blob."""
    return blobs.add("safetensors", serialize({TENSOR_NAME: array}))


def serialize(arrays: dict[str, Any]) -> bytes:
    """Return arrays as safetensors; equal arrays give equal bytes."""
    return write_tensors({name: _entry(array) for name, array in arrays.items()})


def _entry(array: Any) -> tuple[str, tuple[int, ...], bytes]:
    bits = _bits(array)
    return f"{bits.dtype.kind}{bits.dtype.itemsize}", bits.shape, bits.tobytes()


def _bits(array: Any) -> Any:
    """Return an array in a dtype that safetensors has: others as unsigned integers of their width.

    There are none of 16 bytes, so complex128 becomes pairs of 8 bytes.
    """
    array = np.ascontiguousarray(array)
    if array.dtype.isbuiltin == 1 and array.dtype.kind in _KEPT_KINDS:
        return array
    width = min(array.dtype.itemsize, 8)
    shape = array.shape if width == array.dtype.itemsize else (*array.shape, 2)
    return array.reshape(-1).view(f"u{width}").reshape(shape)
