"""Arrays in files between the worker and its children: numpy's own format, for any dtype."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np


def write_array(file: Path, array: Any) -> None:
    """Write an array; numpy's format knows no bfloat16, so its name stands beside its bytes."""
    flat = np.ascontiguousarray(array)
    with file.open("wb") as stream:
        np.save(stream, np.array([str(flat.dtype)]), allow_pickle=False)
        np.save(stream, np.array(flat.shape, np.int64), allow_pickle=False)
        np.save(stream, flat.reshape(-1).view(np.uint8), allow_pickle=False)


def read_array(file: Path) -> Any:
    """Read what `write_array` wrote."""
    with file.open("rb") as stream:
        dtype = str(np.load(stream, allow_pickle=False)[0])
        shape = tuple(np.load(stream, allow_pickle=False).tolist())
        words = np.load(stream, allow_pickle=False)
    return words.view(jax.numpy.dtype(dtype)).reshape(shape)
