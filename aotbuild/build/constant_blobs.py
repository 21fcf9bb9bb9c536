"""Arrays as the bytes of a blob: safetensors of one tensor, the same for equal arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from aotbuild.format.tensors import write_tensors

TENSOR_NAME = "constant"
# numpy's own bools, integers and floats; safetensors lacks longdouble.
_KEPT_KINDS = "biuf"


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
