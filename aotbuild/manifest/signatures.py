"""Checks of what makes signatures: arguments, dims, padded dims, and static arguments."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from aotbuild.format.dtypes import DTYPES
from aotbuild.format.words import did_you_mean, quote
from aotbuild.manifest.declaration import Checks, Declaration, Found
from aotbuild.manifest.names import is_identifier
from aotbuild.manifest.problems import Steps
from aotbuild.manifest.reading import KEY
from aotbuild.manifest.specs import ArgSpec, LeafSpec, LikeSpec, parts_of
from aotbuild.platforms.building import Request


def _repeated_names(declared: Declaration, _: object) -> Found:
    seen: set[str] = set()
    for index, name in enumerate(declared.positional()):
        if name in seen:
            yield ("args", index), f"the argument {quote(name)} is listed twice"
        seen.add(name)
    for name in declared.model.kwargs:
        if name in seen:
            yield ("kwargs", name, KEY), f"{quote(name)} is listed under args already"


def _dims(declared: Declaration, _: object) -> Found:
    """Yield sizes listed twice or not at all, and rows whose names differ."""
    dims = declared.model.dims
    if isinstance(dims, dict):
        for name, sizes in dims.items():
            if not sizes:
                yield ("dims", name), "expected at least one size, found an empty list"
            twice = [size for size, count in Counter(sizes).items() if count > 1]
            if twice:
                yield ("dims", name), f"the size {twice[0]} is listed twice"
        return
    for index, row in enumerate(dims):
        problem = _row_problem(row, dims[0], row in dims[:index])
        if problem:
            yield ("dims", index), problem


def _row_problem(row: dict[str, int], first: dict[str, int], repeated: bool) -> str | None:
    if not row:
        return "an empty row; give each dim a size"
    if set(row) != set(first):
        expected, found = ", ".join(first), ", ".join(row)
        return f"all rows have the same dims; expected {expected}, found {found}"
    return "this row is listed twice" if repeated else None


def _specs(declared: Declaration) -> Iterator[tuple[Steps, ArgSpec]]:
    """Yield every spec of the signature, those inside others too."""
    for index, arg in enumerate(declared.model.args):
        for name, spec in arg.items():
            yield from parts_of(spec, ("args", index, name))
    for name, spec in declared.model.kwargs.items():
        yield from parts_of(spec, ("kwargs", name))


def _dims_used(spec: ArgSpec) -> Iterable[str]:
    if isinstance(spec, LikeSpec):
        return spec.dims
    return [d for d in spec.shape if isinstance(d, str)] if isinstance(spec, LeafSpec) else ()


def _known_dims(declared: Declaration, _: object) -> Found:
    known = declared.model.dim_names
    for steps, spec in _specs(declared):
        inner = ("dims",) if isinstance(spec, LikeSpec) else ()
        for dim in _dims_used(spec):
            if dim not in known:
                yield (*steps, *inner), unknown("dim", dim, known, "dims")


def _known_statics(declared: Declaration, _: object) -> Found:
    # Static arguments may be given by position, too.
    known = tuple(key for key in declared.model.static if isinstance(key, str))
    for steps, spec in _specs(declared):
        for name in spec.static if isinstance(spec, LikeSpec) else ():
            if name not in known:
                yield (*steps, "static"), unknown("static argument", name, known, "static")


def unknown(kind: str, name: str, known: Collection[str], option: str) -> str:
    """Return what is wrong with a name that is declared nowhere under an option."""
    declared = f"known: {', '.join(known)}" if known else f"declare it under {option}:"
    return f"unknown {kind} {quote(name)}{did_you_mean(name, known) or f'; {declared}'}"


def _dims_unused(declared: Declaration, _: object) -> Found:
    used = {dim for _, spec in _specs(declared) for dim in _dims_used(spec)}
    dims = declared.model.dims
    for name in declared.model.dim_names:
        if name not in used:
            message = f"the dim {quote(name)} is used in no spec of args or kwargs; remove it"
            rows = () if isinstance(dims, dict) else enumerate(dims)
            first = [index for index, row in rows if name in row][:1]
            yield ("dims", *first, name, KEY), message


def _pads(declared: Declaration, _: object) -> Found:
    known = declared.model.dim_names
    for dim in declared.model.padded_dims:
        if dim.name not in known:
            yield ("pad", dim.name, KEY), unknown("dim", dim.name, known, "dims")
        for steps, spec in _specs(declared):
            if isinstance(spec, LeafSpec) and dim.name in spec.shape:
                problem = value_problem(dim.value, spec.dtype)
                if problem:
                    message = (
                        f"{declared.written(steps)} has this dim and is {spec.dtype}: {problem}"
                    )
                    yield ("pad", dim.name), message


def _pads_here(declared: Declaration, targets: tuple[Request, ...]) -> Found:
    if declared.model.pad and any(target.description.is_spread(target) for target in targets):
        yield ("pad",), "padding works in one process; a target here has several"


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


def _statics(declared: Declaration, _: object) -> Found:
    for name in declared.model.static:
        problem = _name_problem(declared, name)
        if problem:
            yield ("static", name, KEY), problem


def _name_problem(declared: Declaration, name: str | int) -> str | None:
    """Return what is wrong with a name, or a position: it counts all positional arguments."""
    if isinstance(name, str):
        if not is_identifier(name):
            return f"{quote(name)} is not a Python identifier in ASCII"
        if name in declared.names():
            return f"{quote(name)} is an argument with a spec already; static or traced, not both"
        return None
    positions = [key for key in declared.model.static if isinstance(key, int)]
    total = len(declared.positional()) + len(positions)
    if 0 <= name < total or "args" in declared.broken:
        return None
    shown = str(name)[:20]
    return (
        f"position {shown} is out of range; {total} positional arguments make it 0 to {total - 1}"
    )


_ARGUMENTS = ("args", "kwargs")
OF_SIGNATURE: Checks = (
    (_repeated_names, _ARGUMENTS),
    (_dims, ("dims",)),
    (_known_dims, ("dims",)),
    (_known_statics, ("static",)),
    (_dims_unused, ("dims", "specs", *_ARGUMENTS)),
    (_pads_here, ("pad", "targets")),
    (_pads, ("pad", "dims", *_ARGUMENTS)),
    (_statics, ("static",)),
)
