"""Whether two results are the same numbers, as near as their dtype lets two compilations be."""

from __future__ import annotations

from typing import Any

import numpy as np

from aotbuild.spec.tolerance import Tolerance, default_tolerance, near, widened

VACUOUS = (
    "is finite nowhere, so nothing can be compared; the arguments were seeded, or those of "
    "verify: inputs:"
)

_VARIES = (
    "The function mixes along this dim, as a mean over it does, or its size is in the numbers."
)


def difference(want: Any, have: Any, tolerance: Tolerance) -> str | None:
    """Return the first difference of two numpy arrays of one shape; None if near enough."""
    if not want.size:
        return None
    dtype = str(want.dtype)
    if not default_tolerance(dtype, tolerance.platform):
        return _first(want, have, want == have)
    want, have = widened(want), widened(have)
    if not np.isfinite(want).any():
        return VACUOUS
    return _first(want, have, near(want, have, tolerance.bound(want, dtype)))


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
