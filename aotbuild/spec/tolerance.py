"""How near two computations of the same numbers are, by dtype and platform.

The rules are in `docs/reference/verify.md`. Whoever builds and whoever verifies compare by them, so
numpy is imported here, though only when arrays are compared: see `seeds`.
"""

from __future__ import annotations

import math
from typing import Any

from aotbuild.frozen import dataclass

# Relative tolerances by dtype: on CPUs, and on accelerators, which round matrix products more.
_CPU = {"float64": 1e-9, "float32": 1e-4, "float16": 2e-2, "bfloat16": 2e-2}
_ACCELERATOR = {"float64": 1e-7, "float32": 2e-2, "float16": 5e-2, "bfloat16": 5e-2}
# Of one step between two neighbours, and then some.
_NARROW = {
    "float8_e3m4": 0.1,
    "float8_e4m3": 0.2,
    "float8_e5m2": 0.3,
    "float8_e8m0": 0.5,
    "float4_e2m1": 0.6,
}
# What a result takes over from coarser floats on the way to it, at most: with more, zeros would
# pass for numbers.
_MOST_INHERITED = 0.1
# The part of a tolerance that counts as absolute, for the same reason.
_MOST_ABSOLUTE = 0.1
_PARTS = {"complex64": "float32", "complex128": "float64"}


def default_tolerance(dtype: str, platform: str) -> float:
    """Return the relative tolerance of a float dtype; 0 for every other dtype."""
    name = _PARTS.get(dtype, dtype)
    for prefix, value in _NARROW.items():
        if name.startswith(prefix):
            return value
    return (_CPU if platform == "cpu" else _ACCELERATOR).get(name, 0.0)


@dataclass(frozen=True)
class Tolerance:
    """How near numbers must be: `atol + rtol * |expected|`; None where it is by dtype.

    `floats` are the dtypes that the function computes with: a result is as coarse as they are.
    """

    platform: str
    floats: tuple[str, ...] = ()
    rtol: float | None = None
    atol: float | None = None

    def bound(self, want: Any, dtype: str) -> Any:
        """Return the largest difference of each element; `want` is widened, `dtype` is its own.

        None of NaN and of infinities, from which all is equally far.
        """
        import numpy as np

        coarsest = max((default_tolerance(name, self.platform) for name in self.floats), default=0)
        default = max(default_tolerance(dtype, self.platform), min(coarsest, _MOST_INHERITED))
        absolute = min(default, _MOST_ABSOLUTE) * _root_mean_square(want)
        rtol = default if self.rtol is None else self.rtol
        atol = absolute if self.atol is None else self.atol
        with np.errstate(all="ignore"):
            return np.where(np.isfinite(want), atol + rtol * np.abs(want), 0.0)


def widened(array: Any) -> Any:
    """Return an array of floats as float64, one of complex numbers as complex128."""
    return array.astype("complex128" if array.dtype.kind == "c" else "float64")


def near(want: Any, have: Any, bound: Any) -> Any:
    """Return whether each element is within its bound; NaN equals NaN, an infinity itself."""
    import numpy as np

    is_equal = (have == want) | (np.isnan(have) & np.isnan(want))
    return is_equal | (distance(want, have) <= bound)


def distance(want: Any, have: Any) -> Any:
    """Return how far apart elements are; NaN where they are no numbers."""
    import numpy as np

    with np.errstate(all="ignore"):
        return np.abs(have - want)


def _root_mean_square(want: Any) -> float:
    import numpy as np

    finite = np.abs(want[np.isfinite(want)])
    if not finite.size:
        return 0.0
    # Scaled, so that the squares of large numbers do not overflow.
    largest = float(finite.max())
    return largest * math.sqrt(float(np.mean((finite / largest) ** 2))) if largest else 0.0
