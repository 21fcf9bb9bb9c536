"""Hoisted constants: each array in a safetensors blob of its own, shared by whoever needs it."""

from __future__ import annotations

from typing import Any

import numpy as np

from aotbuild.build.worker.avals import to_aval
from aotbuild.build.worker.blobs import BlobFolder
from aotbuild.spec.record import Constant

TENSOR_NAME = "constant"


def store_constants(values: list[Any], blobs: BlobFolder) -> tuple[Constant, ...]:
    """Write each constant; dtypes that safetensors lacks are kept as unsigned integers."""
    return tuple(_store(value, blobs) for value in values)


def _store(value: Any, blobs: BlobFolder) -> Constant:
    from safetensors.numpy import save

    array = np.ascontiguousarray(np.asarray(value))
    bits = array if array.dtype.isbuiltin == 1 else array.view(f"u{array.dtype.itemsize}")
    data = save({TENSOR_NAME: bits})
    return Constant(to_aval(value.aval), blobs.add("safetensors", data))
