"""An array that a call passes twice, and that it donates: an error with both names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aotbuild.errors import InvalidArgument
from aotbuild.runtime.trees import leaf_paths

if TYPE_CHECKING:
    from aotbuild.format.record import Record
    from aotbuild.runtime.backend import Trees
    from aotbuild.runtime.binding import Call

# XLA's words (jaxlib 0.10.2 and 0.12.0.1): only it knows which buffers it reuses.
_SIGNS = ("Attempt to donate the same buffer twice", "buffer that was previously donated")
_REMEDY = "Pass a copy at one of these places, as jax.numpy.copy(x), or leave it out of donate:."


def donated_twice(
    error: Exception, call: Call, record: Record, trees: Trees
) -> InvalidArgument | None:
    """Return the error of a call for which XLA said so; None for other errors of XLA."""
    if not any(sign in str(error) for sign in _SIGNS):
        return None
    donated, first = set(record.calling.donated), dict[int, int]()
    for index, leaf in enumerate(call.leaves):
        other = first.setdefault(id(leaf), index)
        if other != index and donated & {other, index}:
            paths, name = leaf_paths(call.bound, trees), call.bound.function.name
            expected = "an array that is at one place only, because its buffer is donated"
            found = f"the array that is also {paths[other]}"
            return InvalidArgument(name, paths[index], expected, found, _REMEDY)
    return None
