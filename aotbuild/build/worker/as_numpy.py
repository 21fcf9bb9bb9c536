"""Arrays of jax as numpy has them."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np


def is_key_dtype(dtype: Any) -> bool:
    """Return whether a dtype is one of typed PRNG keys, as `key<fry>`."""
    return bool(jax.numpy.issubdtype(dtype, jax.dtypes.prng_key))


def as_numpy(array: Any) -> Any:
    """Return an array as numpy's; of typed PRNG keys, the numbers behind them."""
    if is_key_dtype(array.dtype):
        array = jax.random.key_data(array)
    return np.asarray(array)
