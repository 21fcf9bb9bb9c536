"""Normalize values, so that they compare between two traces, and between signatures."""

from __future__ import annotations

import dataclasses
import enum
import re
from typing import Any

import jax
import numpy as np

from aotbuild.format.canonical import sha256_hex
from aotbuild.worker import private as jax_private
from aotbuild.worker.avals import as_numpy
from aotbuild.worker.jaxprs import is_jaxpr

_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]+|0x[0-9a-fA-F]{6,}")
_DEEPEST = 8
# How much of an object's repr counts, if nothing else is known of it; in characters.
_LONGEST = 2000


def normalized(value: Any, depth: int = 0) -> Any:
    """Return a value as nested tuples of plain values; equal ones mean the same."""
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        # repr: NaN equals itself, and 1 is not True.
        return type(value).__name__, repr(value), str(getattr(value, "dtype", ""))
    if depth > _DEEPEST:
        return type(value).__qualname__
    if is_jaxpr(value):
        return "jaxpr"
    if is_array(value):
        return array_digest(value)
    if isinstance(value, dict):
        items = (
            (repr(normalized(k, depth + 1)), normalized(v, depth + 1)) for k, v in value.items()
        )
        return "dict", tuple(sorted(items, key=lambda item: item[0]))
    if isinstance(value, (tuple, list)):
        return type(value).__name__, tuple(normalized(item, depth + 1) for item in value)
    if isinstance(value, (set, frozenset)):
        return "set", tuple(sorted(repr(normalized(item, depth + 1)) for item in value))
    if callable(value):
        name = getattr(value, "__qualname__", "")
        return "function", type(value).__name__, str(name), jax_private.callback_name(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, enum.Enum):
        fields = (getattr(value, field.name, None) for field in dataclasses.fields(value))
        return type(value).__qualname__, tuple(normalized(field, depth + 1) for field in fields)
    return type(value).__qualname__, without_addresses(value)


def without_addresses(value: Any) -> str:
    """Return the repr of an object without addresses, which differ between processes."""
    try:
        return _ADDRESS.sub("", repr(value))[:_LONGEST]
    except Exception:  # noqa: BLE001 (the user's __repr__ may raise anything)
        return ""


def is_array(value: Any) -> bool:
    """Return whether a value is an array of numpy or jax, or a literal one."""
    if isinstance(value, type):  # numpy's scalar types have these too, as descriptors
        return False
    return all(hasattr(value, name) for name in ("shape", "dtype", "__array__"))


def same_array(first: Any, second: Any) -> bool:
    """Return whether two constants have the same bytes; large ones are mostly one object."""
    if first is second:
        return True
    if first.dtype != second.dtype or first.shape != second.shape:
        return False
    a, b = numbers(first), numbers(second)
    if a is None or b is None:
        return type(first) is type(second)
    # Bytes: NaN equals itself, and -0.0 is not 0.0.
    x, y = (np.ascontiguousarray(data).reshape(-1).view(np.uint8) for data in (a, b))
    return bool(np.array_equal(x, y))


def array_digest(value: Any) -> tuple[Any, ...]:
    """Return the dtype, shape and digest of an array; the type of a mutable one or a tracer."""
    dtype, shape = str(value.dtype), tuple(map(str, value.shape))
    data = numbers(value)
    if data is None:
        return "array", dtype, shape, type(value).__name__
    return "array", dtype, shape, sha256_hex(np.ascontiguousarray(data).tobytes())


def numbers(value: Any) -> Any:
    """Return the numbers of an array as numpy, also those behind random keys; None without any."""
    if isinstance(value, jax.core.Tracer):
        return None
    try:
        data = as_numpy(value)
    except Exception:  # noqa: BLE001 (mutable and deleted arrays, arrays of other libraries)
        return None
    return None if data.dtype.hasobject else data
