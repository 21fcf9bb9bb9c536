"""What the child process knows of an executable: the shapes that it states, and how to call it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from aotbuild.format.aval import Aval
from aotbuild.format.record import Record
from aotbuild.format.target import HOST
from aotbuild.verify.outcome import Result, Status

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
    """A shape as HLO writes it, such as `f32[4,8]`, and whether its layout is row-major."""

    text: str
    row_major: bool = True


def stated_shapes(hlo: str) -> tuple[list[Shape], list[Shape]] | None:
    """Return the (inputs, outputs) of the entry computation, or None if there is none."""
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


@dataclass(frozen=True)
class Callee:
    """A loaded executable, as it is called: numpy arrays in and out, PRNG keys as their data.

    `physical` returns the shape and the numpy dtype in which an aval is stored.
    """

    run: Callable[[Iterable[Any]], list[Any]]
    physical: Callable[[Aval], tuple[tuple[int, ...], Any]]


@dataclass(frozen=True)
class Loaded:
    """The result of loading a record: the status and, if it passed, what can be called.

    `no_call` says why it cannot be called here. `refused` means that the record is for another
    host, so it was not loaded.
    """

    status: Status
    reasons: list[str]
    callee: Callee | None = None
    platform: str = HOST
    no_call: str | None = None
    refused: bool = False


def shapes_agree(
    record: Record, executable: Any, expected: tuple[list[str], list[str]]
) -> Result | None:
    """Compare the inputs and outputs that an XLA executable states with those of its record.

    None if it states none.
    """
    stated = stated_shapes(executable.hlo_modules()[0].to_string())
    if stated is None:
        return None
    on_host = record.target.platform == HOST
    lines = differences("input", expected[0], stated[0], row_major=on_host)
    lines += differences("output", expected[1], stated[1], row_major=on_host)
    return concluded(lines)


def concluded(reasons: list[str]) -> Result:
    """Return FAIL with the reasons, or PASS if there are none."""
    return (Status.FAIL if reasons else Status.PASS), reasons


def with_result(loaded: Result, made: tuple[str | None, str | None]) -> Result:
    """Return the result of loading with what `result_problem` found of a record that passed."""
    problem, remark = made
    if problem:
        return Status.FAIL, [problem]
    return loaded[0], [remark] if remark else loaded[1]


NOTHING_STATED = Loaded(
    Status.NOT_CHECKED, ["it loads, but does not state the shapes of its inputs"]
)
