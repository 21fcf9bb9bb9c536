"""What a kernel and a library say of themselves: signature, docstring and repr, made on request."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from aotbuild.errors import AotbuildError, InvalidIndex
from aotbuild.format.about import UNKNOWN, About, Parameter
from aotbuild.format.record import Record
from aotbuild.format.signature import Function
from aotbuild.format.values import cut, decode, shown
from aotbuild.runtime.signatures import dims_of, label_of, signatures_of

if TYPE_CHECKING:
    from aotbuild.format.index import Index
    from aotbuild.runtime.package import Package

# Signatures that a repr and a docstring show, and leaves of each.
_FEW = 3
_FEW_LEAVES = 8
_LONGEST = 60
# Records that a repr or a docstring reads.
_READ = 100
# What reading an index raises that is closed or damaged.
UNREADABLE = (AotbuildError, OSError, ValueError)


@dataclass(frozen=True)
class _Shown:
    """A default that is not restored: its repr is its text."""

    text: str

    def __repr__(self) -> str:
        return self.text


def signature_of(function: Function) -> inspect.Signature:
    """Return the signature of a function's source: names, kinds and defaults.

    InvalidIndex if no function of Python has such parameters.
    """
    about = About.of(function.about)
    parameters = about.parameters or _known_parameters(function)
    try:
        return inspect.Signature(
            [
                inspect.Parameter(
                    parameter.name,
                    getattr(inspect.Parameter, parameter.kind.upper()),
                    default=_default(parameter),
                )
                for parameter in parameters
            ]
        )
    except ValueError as err:
        raise InvalidIndex(function.name, "parameters that Python knows", str(err)) from err


def _known_parameters(function: Function) -> Iterator[Parameter]:
    """Yield the parameters that calls bind, for an index that has no others."""
    statics = {static.name: static for static in function.statics}
    positional, called = {*function.positional}, {*statics, *function.dynamic, *function.keywords}
    for name in dict.fromkeys((*function.positional, *function.keywords, *statics)):
        kind = "positional_or_keyword" if name in positional else "keyword_only"
        given = name in called
        has_default = not given or (name in statics and statics[name].has_default)
        default = statics[name].default if name in statics else UNKNOWN
        yield Parameter(name, kind, *([default] if has_default else []))


def _default(parameter: Parameter) -> Any:
    if not parameter.has_default:
        return inspect.Parameter.empty
    if parameter.default == UNKNOWN:
        return _Shown("...")
    try:
        return decode(parameter.default)
    except ValueError:
        name = parameter.default.get("name") if isinstance(parameter.default, dict) else None
        return _Shown(str(name).replace(":", ".") if name else shown(parameter.default))


def kernel_repr(function: Function, package: Package) -> str:
    """Return a kernel with a few of its signatures, on one line."""
    name = f"{package.name}:{function.name}"
    try:
        return f"<aotbuild.Kernel {name}: {_few(function, package.index)}>"
    except UNREADABLE:
        return f"<aotbuild.Kernel {name}>"


def kernel_doc(function: Function, index: Index) -> str:
    """Return the docstring of the source, and what was compiled of it."""
    about = About.of(function.about)
    parts = [
        f"{function.name}{signature_of(function)}",
        about.doc,
        f"Compiled ahead of time from {function.call}:",
        *_compiled(function, index),
        "\n".join(_notes(function, about)),
    ]
    return "\n\n".join(filter(None, parts))


def _compiled(function: Function, index: Index) -> Iterator[str]:
    try:
        records, count = _read(function, index)
    except UNREADABLE:
        return
    found = signatures_of(function, records[:_FEW], lambda _: ())
    # The leaves of one are enough: others differ in sizes, most often.
    for info in found[:1]:
        leaves = [*map(str, info.leaves), *(f"-> {leaf}" for leaf in info.results)]
        yield "\n        ".join([f"    {info.label}", *_shortened(leaves)])
    yield "\n".join(f"    {info.label}" for info in found[1:])
    if count > _FEW:
        yield f"    and {count - _FEW} more: library.signatures({function.name!r})"


def _shortened(lines: list[str]) -> list[str]:
    if len(lines) <= _FEW_LEAVES:
        return lines
    half = _FEW_LEAVES // 2
    return [*lines[:half], f"… {len(lines) - 2 * half} more …", *lines[-half:]]


def _notes(function: Function, about: About) -> Iterator[str]:
    given = {*function.dynamic, *function.keywords, *(static.name for static in function.statics)}
    fixed = [p.name for p in about.parameters if p.has_default and p.name not in given]
    if fixed:
        yield f"Compiled in at their defaults, so a call leaves them out: {', '.join(fixed)}."
    if function.donate:
        yield f"A call takes these arguments away: {', '.join(function.donate)}."
    if function.pad:
        yield f"Calls are padded in {', '.join(dim.name for dim in function.pad.dims)}."


def _few(function: Function, index: Index) -> str:
    """Return a few signatures, as `batch=1; batch=8; batch=32 and 5 more`."""
    records, count = _read(function, index)
    more = f" and {count - _FEW} more" if count > _FEW else ""
    return "; ".join(map(_values, records[:_FEW])) + more if records else "no executables"


def _read(function: Function, index: Index) -> tuple[list[Record], int]:
    """Return a record of each signature, or of some if there are many; and the number of all."""
    read = islice(index.first_records(function.name), _READ)
    return sorted(read, key=_order), len(index.signature_keys(function.name))


def _values(record: Record) -> str:
    """Return a label without the function's name, or the avals where that says nothing."""
    values, _, suffix = label_of(record).removeprefix(f"{record.function}(").rpartition(")")
    avals = cut(", ".join(map(str, record.signature.leaves)), _LONGEST)
    return f"{values}{suffix}".strip() or avals or "()"


def _order(record: Record) -> tuple[Any, ...]:
    sizes = (size if isinstance(size, int) else 0 for size in dims_of(record).values())
    return tuple(sizes), label_of(record)
