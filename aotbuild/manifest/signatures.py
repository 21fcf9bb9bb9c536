"""Checks of what makes signatures: dims, the dims whose calls are padded, and static arguments."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator

from aotbuild.format.dtypes import DTYPES
from aotbuild.format.words import did_you_mean, quote
from aotbuild.manifest.checks import Declaration
from aotbuild.manifest.names import is_identifier
from aotbuild.manifest.nodes import ListNode, MapNode, Mark, Node, ScalarNode, describe, key_mark
from aotbuild.manifest.specs import (
    ArgSpec,
    DictSpec,
    LeafSpec,
    ListSpec,
    TupleSpec,
)
from aotbuild.platforms.building import Request


def check_dims(declared: Declaration) -> None:
    """Report sizes listed twice or not at all, and rows whose names differ."""
    dims = declared.model.dims
    if isinstance(dims, dict):
        for name, sizes in dims.items():
            _check_sizes(declared, name, sizes)
        return
    seen: set[tuple[tuple[str, int], ...]] = set()
    for index, row in enumerate(dims):
        row_key = tuple(sorted(row.items()))
        problem = _row_problem(row, dims[0], row_key in seen)
        if problem:
            declared.add(declared.at("dims", index), ("dims", index), problem)
        seen.add(row_key)


def _check_sizes(declared: Declaration, name: str, sizes: tuple[int, ...]) -> None:
    problem = None if sizes else "expected at least one size, found an empty list"
    twice = [size for size, count in Counter(sizes).items() if count > 1]
    if twice:
        problem = f"the size {twice[0]} is listed twice"
    if problem:
        declared.add(declared.at("dims", name), ("dims", name), problem)


def _row_problem(row: dict[str, int], first: dict[str, int], repeated: bool) -> str | None:
    if not row:
        return "an empty row; give each dim a size"
    if set(row) != set(first):
        expected, found = ", ".join(first), ", ".join(row)
        return f"all rows have the same dims; expected {expected}, found {found}"
    return "this row is listed twice" if repeated else None


def check_used(declared: Declaration, used: set[str]) -> None:
    """Report dims that no spec uses."""
    for name in declared.model.dim_names:
        if name not in used:
            message = f"the dim {quote(name)} is used in no spec of args or kwargs; remove it"
            declared.add(_dim_mark(declared, name), ("dims",), message)


def _dim_mark(declared: Declaration, name: str) -> Mark:
    """Return where a dim is declared: its key, in the first row that has it."""
    node = declared.node("dims")
    for row in node.items if isinstance(node, ListNode) else [node]:
        if isinstance(row, MapNode) and row.entry(name):
            return key_mark(row, name)
    return declared.at("dims")


def check_pads(
    declared: Declaration, named: Iterable[tuple[str, ArgSpec]], targets: tuple[Request, ...]
) -> None:
    """Report what is wrong with the padded dims; `named` are the specs of all arguments."""
    if declared.broken.intersection(("pad", "dims", "args", "kwargs")) or not declared.model.pad:
        return
    if "targets" not in declared.broken and any(
        target.description.is_spread(target) for target in targets
    ):
        message = "padding works in one process; a target here has several"
        declared.add(declared.at("pad"), ("pad",), message)
    known = declared.model.dim_names
    for dim in declared.model.padded_dims:
        if dim.name not in known:
            hint = did_you_mean(dim.name, known) or f"; known: {', '.join(known) or 'none'}"
            node = declared.node("pad")
            mark = key_mark(node, dim.name) if isinstance(node, MapNode) else declared.at("pad")
            declared.add(mark, ("pad",), f"unknown dim {quote(dim.name)}{hint}")
        for name, spec in named:
            for path, leaf in _leaves(name, spec):
                problem = value_problem(dim.value, leaf.dtype) if dim.name in leaf.shape else None
                if problem:
                    message = f"{path} has this dim and is {leaf.dtype}: {problem}"
                    declared.add(declared.at("pad", dim.name), ("pad", dim.name), message)


def value_problem(value: bool | int | float, dtype: str) -> str | None:
    """Return why arrays of a dtype (long name) cannot be padded with a value; None if they can."""
    if DTYPES[dtype].key:
        return "typed PRNG keys cannot be padded; leave the dim out of pad"
    if dtype == "bool":
        return None if value in (0, 1) else f"expected true, false, 0 or 1, found {value!r}"
    if isinstance(value, bool):
        return f"expected a number, found {str(value).lower()}"
    if "int" in dtype:
        return _integer_problem(value, dtype)
    if math.isfinite(value) and abs(value) > (DTYPES[dtype].largest or math.inf):
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


def read_statics(declared: Declaration) -> dict[str | int, tuple[Hashable, ...]]:
    """Return the values of the static arguments by name or position; report what is wrong."""
    found: dict[str | int, tuple[Hashable, ...]] = {}
    for key, node in declared.entries("static"):
        for problem in (_name_problem(declared, key.value), _position_problem(declared, key.value)):
            if problem:
                declared.add(key.mark, ("static",), problem)
        name = key.value if isinstance(key.value, int) else str(key.value)
        found[name] = _values(declared, node, ("static", key.value))
    return found


def _name_problem(declared: Declaration, name: object) -> str | None:
    if isinstance(name, int):
        return None
    if not is_identifier(name):
        return f"{quote(name)} is not a Python identifier in ASCII"
    if name in declared.names():
        return f"{quote(name)} is an argument with a spec already; static or traced, not both"
    return None


def _position_problem(declared: Declaration, position: object) -> str | None:
    """Return why a position cannot be: it counts the traced and the static positionals."""
    if not isinstance(position, int) or "args" in declared.broken:
        return None
    statics = sum(isinstance(key, int) for key in declared.model.static)
    total = len(declared.positional()) + statics
    if 0 <= position < total:
        return None
    shown = str(position)[:20]
    return (
        f"position {shown} is out of range; {total} positional arguments make it 0 to {total - 1}"
    )


def _values(declared: Declaration, node: Node, steps: tuple[object, ...]) -> tuple[Hashable, ...]:
    if isinstance(node, MapNode):
        remedy = "to give an object, let `call` name a functools.partial that has it"
        message = f"expected a list of values, found {describe(node)}; {remedy}"
        declared.add(node.mark, steps, message)
        return ()
    if isinstance(node, ScalarNode):
        return (_value(declared, node, steps),)
    if not node.items:
        declared.add(node.mark, steps, "expected at least one value, found an empty list")
    values = tuple(_value(declared, item, (*steps, i)) for i, item in enumerate(node.items))
    _report_twice(declared, node.items, values, steps)
    return values


def _report_twice(
    declared: Declaration,
    items: tuple[Node, ...],
    values: tuple[Hashable, ...],
    steps: tuple[object, ...],
) -> None:
    seen: set[str] = set()
    for index, (item, value) in enumerate(zip(items, values, strict=True)):
        if repr(value) in seen:  # repr tells 1, 1.0 and true apart
            declared.add(item.mark, (*steps, index), f"the value {quote(value)} is listed twice")
        seen.add(repr(value))


def _value(declared: Declaration, node: Node, steps: tuple[object, ...]) -> Hashable:
    if isinstance(node, MapNode):
        message = "a static value is hashable: null, a boolean, number, text, or a list of such"
        declared.add(node.mark, steps, f"{message}; found {describe(node)}")
        return None
    if isinstance(node, ListNode):
        return tuple(_value(declared, item, (*steps, i)) for i, item in enumerate(node.items))
    if isinstance(node.value, float) and math.isnan(node.value):
        declared.add(node.mark, steps, "NaN equals no value, so no call could match it")
    return node.value
