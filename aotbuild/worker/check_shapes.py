"""Compare a record with the program that was compiled for it, before both are written.

jaxlib takes the shapes of inputs and results from its caller, which is our loader, and the loader
takes them from the record. A wrong shape would read memory outside of the buffer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from math import prod
from typing import Any

from aotbuild.errors import TraceRefused
from aotbuild.format.aval import Aval
from aotbuild.format.golden import numpy_dtype, stored_shape
from aotbuild.format.record import PartitionSpec, Record

# A dtype and the shape that one device has.
Shape = tuple[str, tuple[int, ...]]


def check_shapes(
    record: Record, inputs: Sequence[Sequence[Any]], results: Sequence[Sequence[Any]]
) -> None:
    """Raise TraceRefused unless a program's inputs and results are those of its record.

    Each of them is a dtype and a shape, as `private.program_shapes` returns them.
    """
    sides = (("input", _inputs(record), inputs), ("result", _results(record), results))
    for noun, expected, found in sides:
        there = [(str(dtype), tuple(shape)) for dtype, shape in found]
        for number, (want, have) in enumerate(zip_longest(expected, there)):
            if want != have:
                msg = (
                    f"{record.function}: {noun} {number} of the compiled program for "
                    f"{record.target} is not what its record would say\n"
                    f"  expected {_text(want)}\n  found    {_text(have)}\n"
                    "This is an error of aotbuild; please report it."
                )
                raise TraceRefused(msg)


def _inputs(record: Record) -> Iterator[Shape]:
    calling = record.calling
    constants = [(constant.aval, ()) for constant in calling.constants]
    specs = calling.in_specs or ((),) * len(record.signature.leaves)
    every = [*constants, *zip(record.signature.leaves, specs, strict=True)]
    yield from _tokens(record)
    yield from (_of_one_device(record, *every[index]) for index in calling.kept)


def _results(record: Record) -> Iterator[Shape]:
    calling = record.calling
    specs = calling.out_specs or ((),) * len(calling.outputs)
    yield from _tokens(record)
    for aval, spec in zip(calling.outputs, specs, strict=True):
        yield _of_one_device(record, aval, spec)


def _tokens(record: Record) -> list[Shape]:
    return [("token", ())] * len(record.calling.tokens)


def _of_one_device(record: Record, aval: Aval, spec: PartitionSpec) -> Shape:
    sizes = dict(record.calling.mesh)
    shape = list(stored_shape(aval))
    for axis, names in enumerate(spec):
        over = names if isinstance(names, tuple) else (names,)
        shape[axis] //= prod(sizes[name] for name in over if name is not None)
    return numpy_dtype(aval.dtype).name, tuple(shape)


def _text(shape: Shape | None) -> str:
    return "nothing" if shape is None else f"{shape[0]}{list(shape[1])}"
