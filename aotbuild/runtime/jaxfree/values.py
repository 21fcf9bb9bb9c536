"""Values: the aval that jit would give a numpy array, a numpy scalar or a Python number."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from aotbuild.spec.aval import Aval, NotAnArray

# What jax makes of 64-bit types without jax_enable_x64 (jax._src.dtypes.canonicalize_dtype).
_SQUASHED = {
    "int64": "int32",
    "uint64": "uint32",
    "float64": "float32",
    "complex128": "complex64",
}
_PYTHON = {int: "int64", float: "float64", complex: "complex128"}


def aval_of(value: Any, *, x64: bool) -> Aval:
    """Return the aval that jit would give a value; NotAnArray if it would take none."""
    if isinstance(value, np.ndarray | np.generic):
        return _of_numpy(value, x64)
    if isinstance(value, bool):
        return Aval((), "bool")
    for kind, dtype in _PYTHON.items():
        if isinstance(value, kind):
            name = dtype if x64 else _SQUASHED[dtype]
            _check_fits(value, name)
            return Aval((), name, weak_type=True)
    raise NotAnArray(value)


def _of_numpy(value: Any, x64: bool) -> Aval:
    dtype = str(value.dtype)
    # Not np.ma: naming it imports it, for 8 ms of a start; without it nothing is masked.
    # While another thread imports it, it is there without its class.
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
    if masked is not None and isinstance(value, masked):
        raise NotAnArray(value, "it is masked; use its filled()")
    aval = Aval(value.shape, dtype if x64 else _SQUASHED.get(dtype, dtype))
    try:
        str(aval)
    except KeyError:
        raise NotAnArray(value, f"its dtype is {dtype}") from None
    return aval


def _check_fits(value: Any, dtype: str) -> None:
    if dtype not in ("int32", "int64"):
        return
    limits = np.iinfo(dtype)
    if not limits.min <= value <= limits.max:
        raise NotAnArray(value, f"{value} is too large for {dtype}")
