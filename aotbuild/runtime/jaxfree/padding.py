"""Arrays of numpy padded and cut."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from aotbuild.runtime.padding import Step


class NumpyPadding:
    """See `runtime.door.PaddedArrays`."""

    def fact(self, leaf: Any) -> Hashable | None:
        """Return what of a leaf decides its aval."""
        if isinstance(leaf, np.ndarray | np.generic):
            return (type(leaf), leaf.shape, leaf.dtype)
        # A Python int that is too large for its dtype is no array, so it is looked at each time.
        kind = type(leaf)
        return (kind,) if kind in (bool, float, complex) else None

    def problem(self, _: Any) -> tuple[str, str, str] | None:
        """Return None: every numpy array can be padded."""
        return None

    def pad(self, step: Step, index: int, leaf: Any) -> Any:
        """Return a leaf padded."""
        return step.pad(index, np.asarray(leaf))

    def cut(self, array: Any, shape: tuple[int, ...]) -> Any:
        """Return the beginning of a result: a view, no copy."""
        return array[tuple(map(slice, shape))]
