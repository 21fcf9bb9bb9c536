"""The code of functions that other functions make, found by the names of both."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

from aotbuild.format.parts import title
from aotbuild.format.values import NotEncodable, import_object


def owner_of(value: types.FunctionType, *, with_main: bool = False) -> tuple[str, int]:
    """Return `module:qualname` of the function that makes this one, and which of its codes it is.

    It may be in the module of the program itself only `with_main`.

    Several may have one qualified name, as lambdas do. NotEncodable if no name leads there.
    """
    code = value.__code__
    head, inside, _ = code.co_qualname.partition(".<locals>")
    name = f"{value.__module__}:{head}"
    if inside and (with_main or value.__module__ != "__main__"):
        for number, (found, used) in enumerate(inner_codes(name, code.co_qualname)):
            if found is code and used is value.__globals__:
                return name, number
    where = f"{code.co_filename}:{code.co_firstlineno}"
    msg = f"no name leads to {title(value)} ({where}), nor to what makes it"
    raise NotEncodable(msg)


def inner_codes(owner: str, qualname: str) -> list[tuple[types.CodeType, dict[str, Any]]]:
    """Return each code of a qualified name inside a function, and the globals that it uses.

    The function may have been wrapped. It is imported; none if that fails.
    """
    found: list[tuple[types.CodeType, dict[str, Any]]] = []
    try:
        function = import_object(owner)
    except (ImportError, AttributeError):
        return found
    while function is not None:
        code = getattr(function, "__code__", None)
        if isinstance(code, types.CodeType):
            found += [(each, function.__globals__) for each in _inside(code, qualname)]
        function = getattr(function, "__wrapped__", None)
    return found


def _inside(code: types.CodeType, qualname: str) -> Iterator[types.CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            if constant.co_qualname == qualname:
                yield constant
            yield from _inside(constant, qualname)
