"""What dims, and the dims whose calls are padded, must be."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator

from aotbuild.manifest.nodes import ListNode, MapNode, Mark, key_mark
from aotbuild.manifest.source import Source
from aotbuild.manifest.specs import ArgSpec, DictSpec, LeafSpec, ListSpec, TupleSpec
from aotbuild.platforms.building import Request
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


def check_dims(source: Source) -> None:
    """Report sizes listed twice or not at all, and rows whose names differ."""
    dims = source.model.dims
    if isinstance(dims, dict):
        for name, sizes in dims.items():
            _check_sizes(source, name, sizes)
        return
    seen: set[tuple[tuple[str, int], ...]] = set()
    for index, row in enumerate(dims):
        row_key = tuple(sorted(row.items()))
        problem = _row_problem(row, dims[0], row_key in seen)
        if problem:
            source.add(source.at("dims", index), ("dims", index), problem)
        seen.add(row_key)


def _check_sizes(source: Source, name: str, sizes: tuple[int, ...]) -> None:
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


_LARGEST = {"float16": 65504.0, "float32": 3.4028235677973366e38}


def check_pads(
    source: Source, named: Iterable[tuple[str, ArgSpec]], targets: tuple[Request, ...]
) -> None:
    """Report what is wrong with the padded dims; `named` are the specs of all arguments."""
    if source.broken.intersection(("pad", "dims", "args", "kwargs")) or not source.model.pad:
        return
    if "targets" not in source.broken and any(
        target.description.is_spread(target) for target in targets
    ):
        message = "padding works in one process; a target here has several"
        source.add(source.at("pad"), ("pad",), message)
    known = dim_names(source)
    for dim in source.model.padded_dims:
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
