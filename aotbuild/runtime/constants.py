"""Constants: closed-over arrays that a package stores once for all its executables."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from aotbuild.errors import AotbuildError, DamagedBlob
from aotbuild.runtime.source import Source, read_blob
from aotbuild.spec.record import Constant

TENSOR = "constant"


def read_constant(source: Source, constant: Constant, shape: tuple[int, ...], dtype: Any) -> Any:
    """Return a constant as a numpy array of its physical shape and dtype.

    DamagedBlob if what is stored is not of that size.
    """
    data = read_blob(source, constant.blob)
    place = f"{source.place}/{constant.blob.path}"
    expected = f"one tensor {TENSOR!r} of {constant.aval}"
    try:
        tensors = _parse(data)
    except ValueError as err:
        raise DamagedBlob(place, expected, str(err)) from err
    if list(tensors) != [TENSOR] or tensors[TENSOR].nbytes != math.prod(shape) * dtype.itemsize:
        found = ", ".join(f"{name}: {array.dtype}{array.shape}" for name, array in tensors.items())
        raise DamagedBlob(place, expected, found)
    return np.ascontiguousarray(tensors[TENSOR]).reshape(-1).view(dtype).reshape(shape)


def _parse(data: bytes) -> dict[str, Any]:
    try:
        from safetensors import SafetensorError
        from safetensors.numpy import load
    except ImportError as err:
        msg = (
            "this package keeps constants as safetensors, and safetensors is not installed\n"
            "Install it: pip install safetensors."
        )
        raise AotbuildError(msg) from err
    try:
        tensors: dict[str, Any] = load(data)
    except (SafetensorError, KeyError, TypeError) as err:
        msg = f"{type(err).__name__}: {err}"
        raise ValueError(msg) from err
    return tensors
