"""Dims: from products and rows to one row of sizes a signature, and into specs."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping

from aotbuild.build.manifest.nodes import ListNode, MapNode, Mark, key_mark
from aotbuild.build.manifest.problems import quote
from aotbuild.build.manifest.source import Source
from aotbuild.build.manifest.types import (
    ArgSpec,
    DictSpec,
    LeafSpec,
    LikeSpec,
    ListSpec,
    Row,
    TupleSpec,
)

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
