"""The shapes that an executable states itself, read from the first line of its HLO text. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_START = "entry_computation_layout={"
_SHAPE = re.compile(r"(?P<dtype>[a-z][a-z0-9]*)\[(?P<dims>[0-9,<=?]*)\](?:\{(?P<order>[0-9,]*))?")
# xla/primitive_util.cc; tried on jaxlib 0.10.2 and 0.12.0.1.
_HLO_PREFIXES = (
    ("bool", "pred"),
    ("bfloat", "bf"),
    ("uint", "u"),
    ("int", "s"),
    ("float8_", "f8"),
    ("float4_", "f4"),
    ("float", "f"),
    ("complex", "c"),
)


@dataclass(frozen=True)
class Shape:
    """A shape as HLO writes it: `f32[4,8]`, and whether it lies row-major."""

    text: str
    row_major: bool = True


def stated_shapes(hlo: str) -> tuple[list[Shape], list[Shape]] | None:
    """Return the (inputs, outputs) of the entry computation, or None if the text has none."""
    start = hlo.find(_START)
    if start < 0:
        return None
    body = _until_closed(hlo[start + len(_START) :])
    inputs, arrow, outputs = body.partition("->")
    return (_shapes(inputs), _shapes(outputs)) if arrow else None


def hlo_shape(dims: Sequence[int], dtype: str) -> str:
    """Return a shape as HLO writes it; `dtype` is a long name as of `numpy.dtype`."""
    for prefix, short in _HLO_PREFIXES:
        if dtype.startswith(prefix):
            dtype = short + dtype.removeprefix(prefix)
            break
    return f"{dtype}[{','.join(map(str, dims))}]"


def differences(
    what: str, expected: Sequence[str], found: Sequence[Shape], *, row_major: bool
) -> list[str]:
    """Return how stated shapes differ from those of a record; `what` is `input` or `output`."""
    if len(expected) != len(found):
        return [f"expected {len(expected)} {what}s, the executable has {len(found)}"]
    lines = []
    for number, (want, have) in enumerate(zip(expected, found, strict=True)):
        if want != have.text:
            lines.append(f"{what} {number}: the record says {want}, the executable {have.text}")
        elif row_major and not have.row_major:
            lines.append(f"{what} {number}: expected the row-major layout, found another")
    return lines


def _shapes(text: str) -> list[Shape]:
    found = []
    for match in _SHAPE.finditer(text):
        order = [int(axis) for axis in (match["order"] or "").split(",") if axis]
        text = f"{match['dtype']}[{match['dims']}]"
        found.append(Shape(text, order in ([], sorted(order, reverse=True))))
    return found


def _until_closed(text: str) -> str:
    depth = 1
    for position, char in enumerate(text):
        depth += (char == "{") - (char == "}")
        if depth == 0:
            return text[:position]
    return text
