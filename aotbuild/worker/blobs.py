"""The blobs a worker writes, each once, under its digest; arrays as safetensors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aotbuild.build.constant_blobs import TENSOR_NAME, serialize
from aotbuild.spec.canonical import sha256_hex
from aotbuild.spec.layout import write_whole
from aotbuild.spec.record import Blob, Constant
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


def store_constants(values: list[Any], names: list[str], blobs: BlobFolder) -> tuple[Constant, ...]:
    """Write each constant in its own blob, so that equal arrays are stored once."""
    return tuple(
        Constant(to_aval(value.aval), store_array(np.asarray(value), blobs), name)
        for value, name in zip(values, names, strict=True)
    )


def store_array(array: Any, blobs: BlobFolder) -> Blob:
    """Write one array in its own blob."""
    return blobs.add("safetensors", serialize({TENSOR_NAME: array}))
