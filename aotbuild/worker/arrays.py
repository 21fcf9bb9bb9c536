"""Arrays of numpy and jax as bytes, so that they compare between traces and processes."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from aotbuild.format.canonical import sha256_hex
from aotbuild.worker.avals import as_numpy


def is_array(value: Any) -> bool:
    """Return whether a value is an array of numpy or jax, or a literal one."""
    if isinstance(value, type):  # numpy's scalar types have these too, as descriptors
        return False
    return all(hasattr(value, name) for name in ("shape", "dtype", "__array__"))


def array_digest(value: Any) -> tuple[Any, ...]:
    """Return the dtype, shape and digest of an array; the type of a mutable one or a tracer."""
    dtype, shape = str(value.dtype), tuple(map(str, value.shape))
    data = _numbers(value)
    if data is None:
        return "array", dtype, shape, type(value).__name__
    return "array", dtype, shape, sha256_hex(np.ascontiguousarray(data).tobytes())


def _numbers(value: Any) -> Any:
    """Return the numbers of an array as numpy, also those behind random keys; None without any."""
    if isinstance(value, jax.core.Tracer):
        return None
    try:
        data = as_numpy(value)
    except Exception:  # noqa: BLE001 (mutable and deleted arrays, arrays of other libraries)
        return None
    return None if data.dtype.hasobject else data
