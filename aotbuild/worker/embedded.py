"""The constants that a trace closes over and an executable will embed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aotbuild.build.protocol import Embedded
from aotbuild.worker.jaxprs import body_of, inner_jaxprs
from aotbuild.worker.traced import Traced

# In bytes: less makes no wheel large.
_FEW = 10_000


def embedded_constants(traced: Traced) -> Embedded | None:
    """Return how much an executable of this trace embeds; None if it is little."""
    if traced.job.function.constants != "embed":
        return None
    arrays = {id(array): array for array in _constants(traced.closed_jaxpr)}
    total = sum(array.nbytes for array in arrays.values())
    if total < _FEW:
        return None
    largest = max(arrays.values(), key=lambda array: array.nbytes)
    shape = ",".join(map(str, largest.shape))
    return Embedded(total=total, largest=f"{largest.dtype}[{shape}]", largest_bytes=largest.nbytes)


def _constants(closed: Any) -> Iterator[Any]:
    """Yield the arrays that a jaxpr and those inside close over, repeatedly."""
    yield from (value for value in getattr(closed, "consts", ()) if hasattr(value, "nbytes"))
    for equation in body_of(closed).eqns:
        for inner in inner_jaxprs(equation):
            yield from _constants(inner)
