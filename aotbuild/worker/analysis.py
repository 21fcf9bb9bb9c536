"""What an executable says of itself: cost and memory, custom calls, shapes as its record has."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import zip_longest
from math import prod
from typing import Any

from aotbuild.errors import TraceRefused
from aotbuild.format.aval import Aval
from aotbuild.format.golden import numpy_dtype, stored_shape
from aotbuild.format.record import CustomCall, PartitionSpec, Record
from aotbuild.platforms.base import host_part, names
from aotbuild.worker import private as jax_private

# --- cost and memory ------------------------------------------------------------------------------


def summary(compiled: Any, lowered: Any, devices: int, *, with_calls: bool) -> dict[str, Any]:
    """Return FLOPs, bytes accessed, and sizes of buffers, of one device, as each record has them.

    `peak_bytes` is the most that is held at once, arguments and results included. `with_calls` says
    that the executable has custom calls, `devices` on how many devices it runs.
    """
    own, memory = compiled.cost_analysis(), compiled.memory_analysis()
    cost = own or _module_cost(compiled)
    if with_calls and not own:
        cost["flops"] = max(cost.get("flops", 0.0), _lowered_flops(lowered) / devices)
    buffers = ("argument", "output", "temp", "alias", "generated_code")
    sizes = {f"{name}_bytes": getattr(memory, f"{name}_size_in_bytes", None) for name in buffers}
    sizes["peak_bytes"] = getattr(memory, "peak_memory_in_bytes", None)
    return {
        "flops": _stated(cost.get("flops")),
        "bytes_accessed": _stated(cost.get("bytes accessed")),
        **{name: size for name, size in sizes.items() if size is not None},
    }


def _stated(value: float | None) -> float | None:
    """Return None for a number with which a compiler says that it does not know."""
    return value if value is not None and 0 <= value < math.inf else None


def _module_cost(compiled: Any) -> dict[str, float]:
    """Return XLA:CPU's estimate; compilers for absent CPUs and GPUs give none."""
    return jax_private.module_cost(jax_private.compiled_module(compiled))


def _lowered_flops(lowered: Any) -> float:
    """Return the FLOPs before XLA replaced parts by custom calls, as it does for cuDNN."""
    return jax_private.module_cost(jax_private.lowered_module(lowered)).get("flops", 0.0)


# --- custom calls ---------------------------------------------------------------------------------

_TARGET = re.compile(r'custom_call_target="([^"]+)"')


class CustomCalls:
    """Tells the user's targets, which are registered after this is made, from all others."""

    def __init__(self) -> None:
        self._before_user = {name: _registered(name) for name in names()}

    def of(self, hlo: str, platform: str) -> tuple[CustomCall, ...]:
        """Return the targets in the text of an optimized HLO module, sorted."""
        found = sorted(set(_TARGET.findall(hlo)))
        return tuple(CustomCall(target, self._provider(target, platform)) for target in found)

    def _provider(self, target: str, platform: str) -> str:
        if target in _of_jax(platform):
            return "jax"
        return "user" if target in _registered(platform) - self._before_user[platform] else "xla"


@cache
def _of_jax(platform: str) -> frozenset[str]:
    """Return the targets that jaxlib, or the platform's plugin, has in modules of its own."""
    return frozenset(name for module in host_part(platform).kernels() for name in module.handlers)


def _registered(platform: str) -> frozenset[str]:
    """Return the targets that Python registered for a platform so far."""
    xla_name = host_part(platform).xla_name
    return jax_private.registered_custom_calls(xla_name) if xla_name else frozenset()


# --- shapes ---------------------------------------------------------------------------------------

# jaxlib takes the shapes of inputs and results from its caller, which is our loader, and the loader
# takes them from the record. A wrong shape would read memory outside of the buffer.

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
    yield from (_of_one_device(record, *every[index]) for index in calling.kept)


def _results(record: Record) -> Iterator[Shape]:
    calling = record.calling
    specs = calling.out_specs or ((),) * len(calling.outputs)
    for aval, spec in zip(calling.outputs, specs, strict=True):
        yield _of_one_device(record, aval, spec)


def _of_one_device(record: Record, aval: Aval, spec: PartitionSpec) -> Shape:
    sizes = dict(record.calling.mesh)
    shape = list(stored_shape(aval))
    for axis, each in enumerate(spec):
        over = each if isinstance(each, tuple) else (each,)
        shape[axis] //= prod(sizes[name] for name in over if name is not None)
    return numpy_dtype(aval.dtype).name, tuple(shape)


def _text(shape: Shape | None) -> str:
    return "nothing" if shape is None else f"{shape[0]}{list(shape[1])}"
