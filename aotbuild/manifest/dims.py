"""Dims: one row of sizes a signature, bound into specs; and the dims whose calls are padded."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping

from aotbuild.manifest.nodes import ListNode, MapNode, Mark, key_mark
from aotbuild.manifest.source import Source
from aotbuild.manifest.types import ArgSpec, DictSpec, LeafSpec, LikeSpec, ListSpec, Row, TupleSpec
from aotbuild.platforms.building import Request
from aotbuild.spec.padding import PaddedDim, one_nan
from aotbuild.spec.words import did_you_mean, quote

MAX_SIGNATURES = 100_000


def dim_names(source: Source) -> tuple[str, ...]:
    """Return the names of the dims, in the order of the manifest."""
    dims = source.model.dims
    return tuple(dims if isinstance(dims, dict) else dict.fromkeys(d for row in dims for d in row))


def row_count(source: Source) -> int:
    """Return how many rows there will be, without making them."""
    dims = source.model.dims
    return math.prod(map(len, dims.values())) if isinstance(dims, dict) else len(dims)


def expand(source: Source) -> tuple[Row, ...]:
    """Return all rows: the product in the order of the manifest, or the rows as listed."""
    dims = source.model.dims
    if not dims or row_count(source) > MAX_SIGNATURES:
        return ((),)
    if isinstance(dims, dict):
        return tuple(tuple(zip(dims, sizes, strict=True)) for sizes in _product(dims))
    order = tuple(dims[0])
    return tuple(tuple((name, row[name]) for name in order if name in row) for row in dims)


def _product(dims: Mapping[str, list[int]]) -> itertools.product[tuple[int, ...]]:
    return itertools.product(*dims.values())


def check_dims(source: Source) -> None:
    """Report sizes listed twice or not at all, and rows whose names differ."""
    dims = source.model.dims
    if isinstance(dims, dict):
        for name, sizes in dims.items():
            _check_sizes(source, name, sizes)
        return
    seen: set[Row] = set()
    for index, row in enumerate(dims):
        row_key = tuple(sorted(row.items()))
        problem = _row_problem(row, dims[0], row_key in seen)
        if problem:
            source.add(source.at("dims", index), ("dims", index), problem)
        seen.add(row_key)


def _check_sizes(source: Source, name: str, sizes: list[int]) -> None:
    problem = None if sizes else "expected at least one size, found an empty list"
    twice = [size for size, count in Counter(sizes).items() if count > 1]
    if twice:
        problem = f"the size {twice[0]} is listed twice"
    if problem:
        source.add(source.at("dims", name), ("dims", name), problem)


def _row_problem(row: dict[str, int], first: dict[str, int], repeated: bool) -> str | None:
    if not row:
        return "an empty row; give each dim a size"
    if set(row) != set(first):
        expected, found = ", ".join(first), ", ".join(row)
        return f"all rows have the same dims; expected {expected}, found {found}"
    return "this row is listed twice" if repeated else None


def check_used(source: Source, used: set[str]) -> None:
    """Report dims that no spec uses."""
    for name in dim_names(source):
        if name not in used:
            message = f"the dim {quote(name)} is used in no spec of args or kwargs; remove it"
            source.add(_dim_mark(source, name), ("dims",), message)


def _dim_mark(source: Source, name: str) -> Mark:
    """Return where a dim is declared: its key, in the first row that has it."""
    node = source.node("dims")
    for row in node.items if isinstance(node, ListNode) else [node]:
        if isinstance(row, MapNode) and row.entry(name):
            return key_mark(row, name)
    return source.at("dims")


def bind_dims(spec: ArgSpec, row: Mapping[str, int | str]) -> ArgSpec:
    """Return the spec with the dims of a row put in; `LikeSpec` gets them as `values`.

    Names that the row lacks stay names.
    """
    if isinstance(spec, LeafSpec):
        shape = tuple(row.get(d, d) if isinstance(d, str) else d for d in spec.shape)
        return LeafSpec(shape, spec.dtype, spec.weak_type)
    if isinstance(spec, LikeSpec):
        values = tuple((name, row[name]) for name in spec.dims if name in row)
        return LikeSpec(spec.ref, spec.dims, values)
    if isinstance(spec, ListSpec):
        return ListSpec(tuple(bind_dims(item, row) for item in spec.items))
    if isinstance(spec, TupleSpec):
        return TupleSpec(tuple(bind_dims(item, row) for item in spec.items))
    if isinstance(spec, DictSpec):
        return DictSpec(tuple((key, bind_dims(item, row)) for key, item in spec.items))
    return spec


_LARGEST = {"float16": 65504.0, "float32": 3.4028235677973366e38}


def read_pads(
    source: Source, named: tuple[tuple[str, ArgSpec], ...], targets: tuple[Request, ...]
) -> tuple[PaddedDim, ...]:
    """Return the padded dims, in the order of the manifest; report what is wrong with them."""
    if source.broken.intersection(("pad", "dims", "args", "kwargs")) or not source.model.pad:
        return ()
    if "targets" not in source.broken and any(
        target.description.is_spread(target) for target in targets
    ):
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
