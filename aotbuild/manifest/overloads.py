"""Overloads: several entries of one function, which a call of the first of them may run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aotbuild.format.words import did_you_mean
from aotbuild.manifest.declaration import Declaration

# What decides the numbers that a function returns, besides its arguments.
_SAME = ("call", "wrap", "config", "env", "compiler_options", "mesh", "explicit_axes")


def check_overloads(declarations: Sequence[Declaration]) -> None:
    """Note what is wrong with the entries that are overloads of others.

    A caller of the first entry does not say which of them it wants. So they may differ in what a
    call tells: its arguments and static values.
    """
    by_name = {declared.name: declared for declared in declarations}
    for declared in declarations:
        if declared.model.overload_of is not None and "overload_of" not in declared.broken:
            for problem in _problems(declared, by_name):
                declared.add(declared.at("overload_of"), ("overload_of",), problem)


def _arrays_and_statics(declared: Declaration, first: Declaration) -> Iterator[str]:
    """Yield what calls of the first entry hash as static values, and this one takes as arrays."""
    for name in declared.names():
        if name in first.model.static:
            yield (
                f"{name} is static in {first.name}, and an array here: make {first.name} an "
                f"overload of {declared.name}"
            )


def _problems(declared: Declaration, by_name: dict[str, Declaration]) -> Iterator[str]:
    name = str(declared.model.overload_of)
    first = by_name.get(name)
    if first is None:
        yield f"no function {name!r}{did_you_mean(name, by_name)}"
    elif first is declared:
        yield "an entry is no overload of itself"
    elif first.model.overload_of is not None:
        yield f"{name} is an overload itself; name {first.model.overload_of}"
    else:
        yield from _arrays_and_statics(declared, first)
        for option in _SAME:
            if option in declared.broken | first.broken:
                continue
            ours, theirs = getattr(declared.model, option), getattr(first.model, option)
            if ours != theirs:
                yield (
                    f"{option} must be that of {name}, since calls of {name} run this entry: "
                    f"expected {theirs!r}, found {ours!r}"
                )
