"""Read `pad:`: the dims whose calls are padded, checked against the arrays that have them."""

from __future__ import annotations

import math
from collections.abc import Iterator

from aotbuild.build.manifest.dims import dim_names
from aotbuild.build.manifest.nodes import MapNode, key_mark
from aotbuild.build.manifest.problems import did_you_mean, quote
from aotbuild.build.manifest.source import Source
from aotbuild.build.manifest.types import (
    ArgSpec,
    CudaTarget,
    DictSpec,
    LeafSpec,
    ListSpec,
    Target,
    TpuTarget,
    TupleSpec,
)
from aotbuild.spec.padding import PaddedDim, one_nan

_LARGEST = {"float16": 65504.0, "float32": 3.4028235677973366e38}


def read_pads(
    source: Source, named: tuple[tuple[str, ArgSpec], ...], targets: tuple[Target, ...]
) -> tuple[PaddedDim, ...]:
    """Return the padded dims, in the order of the manifest; report what is wrong with them."""
    if source.broken.intersection(("pad", "dims", "args", "kwargs")) or not source.model.pad:
        return ()
    if "targets" not in source.broken and any(map(_is_spread, targets)):
        message = "padding works in one process; a target here has several"
        source.add(source.at("pad"), ("pad",), message)
    dims = tuple(PaddedDim(n, one_nan(pad.value), pad.safe) for n, pad in source.model.pad.items())
    known = dim_names(source)
    for dim in dims:
        if dim.name not in known:
            hint = did_you_mean(dim.name, known) or f"; known: {', '.join(known) or 'none'}"
            node = source.node("pad")
            mark = key_mark(node, dim.name) if isinstance(node, MapNode) else source.at("pad")
            source.add(mark, ("pad",), f"unknown dim {quote(dim.name)}{hint}")
        for name, spec in named:
            for path, leaf in _leaves(name, spec):
                problem = value_problem(dim.value, leaf.dtype) if dim.name in leaf.shape else None
                if problem:
                    message = f"{path} has this dim and is {leaf.dtype}: {problem}"
                    source.add(source.at("pad", dim.name), ("pad", dim.name), message)
    return dims


def value_problem(value: bool | int | float, dtype: str) -> str | None:
    """Return why arrays of a dtype (long name) cannot be padded with a value; None if they can."""
    if dtype.startswith("key<"):
        return "typed PRNG keys cannot be padded; leave the dim out of pad"
    if dtype == "bool":
        return None if value in (0, 1) else f"expected true, false, 0 or 1, found {value!r}"
    if isinstance(value, bool):
        return f"expected a number, found {str(value).lower()}"
    if "int" in dtype:
        return _integer_problem(value, dtype)
    if math.isfinite(value) and abs(value) > _LARGEST.get(dtype, math.inf):
        return f"{value!r} is larger than every finite {dtype}"
    return None


def _integer_problem(value: int | float, dtype: str) -> str | None:
    bits = int(dtype.rpartition("int")[2])
    low, high = (0, 2**bits - 1) if dtype[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    is_whole = math.isfinite(value) and value == int(value)
    if is_whole and low <= value <= high:
        return None
    return f"expected a whole number from {low} to {high}, found {value!r}"


def _is_spread(target: Target) -> bool:
    """Return whether a target may have more than one process."""
    if isinstance(target, CudaTarget):
        return target.processes > 1
    return isinstance(target, TpuTarget) and (target.processes or 1) > 1


def _leaves(path: str, spec: ArgSpec) -> Iterator[tuple[str, LeafSpec]]:
    """Yield what the manifest says of each array; what `like:` stands for is known later."""
    if isinstance(spec, LeafSpec):
        yield path, spec
    elif isinstance(spec, ListSpec | TupleSpec):
        for index, item in enumerate(spec.items):
            yield from _leaves(f"{path}[{index}]", item)
    elif isinstance(spec, DictSpec):
        for key, item in spec.items:
            yield from _leaves(f"{path}[{key!r}]", item)
