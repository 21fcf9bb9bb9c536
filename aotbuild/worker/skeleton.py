"""The skeleton of a program: its equations without the sizes of arrays and without constants."""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Iterator
from typing import Any

from jax.extend.core import Literal

from aotbuild.build.replies import TraceExplained
from aotbuild.format.canonical import sha256_hex
from aotbuild.worker import private as jax_private
from aotbuild.worker.arrays import array_digest, is_array
from aotbuild.worker.jaxprs import body_of, inner_jaxprs, is_jaxpr
from aotbuild.worker.traced import Traced

# Parameters that follow from the sizes of the arrays. Dimension numbers do not.
_SIZES = {
    "axis_size",
    "fft_lengths",
    "k",
    "length",
    "limit_indices",
    "new_sizes",
    "operand_shape",
    "padding",
    "padding_config",
    "shape",
    "sizes",
    "slice_sizes",
    "start_indices",
    "window_dimensions",
}
_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]+|0x[0-9a-fA-F]{6,}")
_DEEPEST = 8
# How much of an object's repr counts, if nothing else is known of it; in characters.
_LONGEST = 2000
# A shape in a text, such as that of an aval.
_SHAPE = re.compile(r"\[[\d, ]*\]")

# Depth of nesting, primitive, `file:line in function` or "", digest of the rest.
Step = tuple[int, str, str, str]


def explained(traced: Traced) -> TraceExplained:
    """Return what a build that explains its traces is told of one."""
    return TraceExplained(steps=tuple(skeleton(traced.closed_jaxpr)), notes=traced.notes)


def skeleton(closed_jaxpr: Any) -> list[Step]:
    """Return the equations of a closed jaxpr in order, those inside an equation right after it.

    It leaves out sizes and the values of constants. It keeps dtypes, ranks, dimension numbers, and
    which value goes where. Python loops are unrolled in it, as in the jaxpr.
    """
    return list(_steps(closed_jaxpr, 0))


def _steps(closed: Any, depth: int) -> Iterator[Step]:
    jaxpr = body_of(closed)
    numbers: dict[Any, int] = {}
    for variable in (*jaxpr.constvars, *jaxpr.invars):
        numbers[variable] = len(numbers)
    for equation in jaxpr.eqns:
        inputs = " ".join(_input(value, numbers) for value in equation.invars)
        for variable in equation.outvars:
            numbers[variable] = len(numbers)
        outputs = " ".join(_kind(variable.aval) for variable in equation.outvars)
        line = jax_private.source_line(equation)
        rest = f"{inputs} -> {outputs}{_parameters(equation)}"
        yield depth, _name(equation), line, sha256_hex(rest.encode())[:16]
        for inner in inner_jaxprs(equation):
            yield from _steps(inner, depth + 1)


def _name(equation: Any) -> str:
    """Return the primitive, with the name of a function that it calls: `jit tril`."""
    name, params = jax_private.name_and_params(equation)
    called = params.get("name")
    return f"{name} {called}" if isinstance(called, str) else name


def _input(value: Any, numbers: dict[Any, int]) -> str:
    return _kind(value.aval) if isinstance(value, Literal) else str(numbers[value])


def _kind(aval: Any) -> str:
    """Return an aval without its sizes: dtype and rank, such as `float32/2`."""
    return f"{getattr(aval, 'dtype', aval)}/{len(getattr(aval, 'shape', ()))}"


def _parameters(equation: Any) -> str:
    _, params = jax_private.name_and_params(equation)
    kept = sorted((n, _normalized(v)) for n, v in params.items() if n not in _SIZES)
    return "".join(f" {name}={_SHAPE.sub('[]', repr(value))}" for name, value in kept)


def _normalized(value: Any, depth: int = 0) -> Any:
    """Return a value as nested tuples of plain values; equal ones mean the same."""
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        # repr: NaN equals itself, and 1 is not True.
        return type(value).__name__, repr(value), str(getattr(value, "dtype", ""))
    if depth > _DEEPEST:
        return type(value).__qualname__
    if is_jaxpr(value):
        return "jaxpr"
    if is_array(value):
        return array_digest(value)
    if isinstance(value, dict):
        items = (
            (repr(_normalized(k, depth + 1)), _normalized(v, depth + 1)) for k, v in value.items()
        )
        return "dict", tuple(sorted(items, key=lambda item: item[0]))
    if isinstance(value, (tuple, list)):
        return type(value).__name__, tuple(_normalized(item, depth + 1) for item in value)
    if isinstance(value, (set, frozenset)):
        return "set", tuple(sorted(repr(_normalized(item, depth + 1)) for item in value))
    if callable(value):
        name = getattr(value, "__qualname__", "")
        return "function", type(value).__name__, str(name), jax_private.callback_name(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, enum.Enum):
        fields = (getattr(value, field.name, None) for field in dataclasses.fields(value))
        return type(value).__qualname__, tuple(_normalized(field, depth + 1) for field in fields)
    return type(value).__qualname__, _without_addresses(value)


def _without_addresses(value: Any) -> str:
    """Return the repr of an object without addresses, which differ between processes."""
    try:
        return _ADDRESS.sub("", repr(value))[:_LONGEST]
    except Exception:  # noqa: BLE001 (the user's __repr__ may raise anything)
        return ""
