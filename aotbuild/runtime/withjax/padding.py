"""Arrays of jax padded and cut, on the host: what pads on a device would have to be compiled.

On a CPU the host sees what jax has without a copy. From an accelerator, padded arguments and cut
results travel to the host and back; docs/how-to/padding.md says so.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from aotbuild.runtime import jax_private

if TYPE_CHECKING:
    from aotbuild.runtime.padding import Step


class JaxPadding:
    """See `runtime.door.PaddedArrays`."""

    def fact(self, leaf: Any) -> Hashable | None:
        """Return what of a leaf decides its aval; numpy's and Python's also depend on x64."""
        kind = type(leaf)
        if isinstance(leaf, jax.Array):
            return (kind, leaf.shape, leaf.dtype, leaf.weak_type)
        if isinstance(leaf, np.ndarray | np.generic):
            return (kind, leaf.shape, leaf.dtype, jax.config.jax_enable_x64)
        return (kind, jax.config.jax_enable_x64) if kind in _NUMBERS else None

    def problem(self, leaf: Any) -> tuple[str, str, str] | None:
        """Return (expected, found, remedy) of a leaf that the host cannot see."""
        if not isinstance(leaf, jax.Array):
            return None
        if leaf.is_deleted():
            remedy = "It was donated to an earlier call; use that call's result instead."
            return "an array", "a deleted array", remedy
        if not leaf.is_fully_addressable:
            remedy = "Pad it before it is placed, to a size that was compiled."
            return "an array that is all in this process", str(leaf.sharding), remedy
        return None

    def pad(self, step: Step, index: int, leaf: Any) -> Any:
        """Return a leaf padded: where it is if it is committed, else as numpy's."""
        if not isinstance(leaf, jax.Array):
            return step.pad(index, np.asarray(leaf))
        array = step.pad(index, jax_private.host_view(leaf))
        return jax_private.put_like(array, leaf) if leaf.committed or leaf.weak_type else array

    def cut(self, array: Any, shape: tuple[int, ...]) -> Any:
        """Return the beginning of a result, in a memory of its own."""
        kept = jax_private.host_view(array)[tuple(map(slice, shape))]
        return jax_private.put_like(kept, array)


_NUMBERS = (bool, int, float, complex)
