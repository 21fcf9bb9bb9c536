"""Whether two results are the same numbers, as near as their dtype lets two compilations be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from aotbuild.spec.tolerance import MOST_INHERITED, default_tolerance

VACUOUS = (
    "is finite nowhere, so nothing can be compared; the arguments were seeded, or those of "
    "verify: inputs:"
)

_VARIES = (
    "The function mixes along this dim, as a mean over it does, or its size is in the numbers."
)


@dataclass(frozen=True)
class Bound:
    """How near numbers must be: `atol + rtol * |expected|`; None where it is by dtype.

    `floats` are the dtypes that the function computes with: a result is as coarse as they are.
    """

    floats: tuple[str, ...]
    rtol: float | None = None
    atol: float | None = None

    def of(self, want: Any, dtype: str) -> Any:
        """Return the largest difference of each element."""
        coarsest = max((default_tolerance(name, "cpu") for name in self.floats), default=0.0)
        default = max(default_tolerance(dtype, "cpu"), min(coarsest, MOST_INHERITED))
        finite = np.abs(want[np.isfinite(want)])
        mean_square = np.sqrt(np.mean(finite**2)) if finite.size else 0.0
        rtol = default if self.rtol is None else self.rtol
        atol = default * mean_square if self.atol is None else self.atol
        return atol + rtol * np.abs(want)


def difference(want: Any, have: Any, bound: Bound) -> str | None:
    """Return the largest difference of two numpy arrays of one shape; None if near enough."""
    if not want.size:
        return None
    if not jax.numpy.issubdtype(want.dtype, np.inexact):
        return _first(want, have, want == have)
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    dtype = str(want.dtype)
    want, have = want.astype(wide), have.astype(wide)
    if not np.isfinite(want).any():
        return VACUOUS
    with np.errstate(all="ignore"):
        is_same = (want == have) | (np.isnan(want) & np.isnan(have))
        is_same |= np.abs(want - have) <= bound.of(want, dtype)
    return _first(want, have, is_same)


def _first(want: Any, have: Any, is_same: Any) -> str | None:
    if is_same.all():
        return None
    index = tuple(map(int, np.argwhere(~np.atleast_1d(is_same))[0]))
    want, have = np.atleast_1d(want)[index], np.atleast_1d(have)[index]
    count = int((~is_same).sum())
    return (
        f"changes in {count} of {is_same.size} numbers, first at {list(index)}\n"
        f"  expected {want}\n  found    {have}\n{_VARIES}"
    )
