"""What functions consist of: a name that leads to them, else their code and what it closes over."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

from aotbuild.format.values import NotEncodable, qualified_name

# The kind of bytecode, which differs between minor versions of Python.
CODE = "code"
# How many times a function may have been wrapped, to be found by the name of its wrapper.
_MOST_WRAPPERS = 8


def name_of(value: Any) -> str | None:
    """Return the name that leads to a function or type in every process, or None.

    It may be the name of its wrapper, such as `jax.jit`'s, or stand in a package around its module.
    """
    qualname = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    if not isinstance(qualname, str) or "<" in qualname:
        return None
    for module in dict.fromkeys(_modules(value)):
        for wrappers in range(_MOST_WRAPPERS):
            try:
                return qualified_name(value, module, ".__wrapped__" * wrappers)
            except NotEncodable:
                continue
    return None


def _modules(value: Any) -> Iterator[str]:
    module = getattr(value, "__module__", None)
    while isinstance(module, str) and module:
        yield module
        module = module.rpartition(".")[0]
    yield type(value).__module__


def _function(value: types.FunctionType) -> Any:
    if name := name_of(value):
        return "name", name, []
    cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
    parts: list[tuple[str, Any]] = [("(code)", value.__code__)]
    parts += [(f"(default {index})", item) for index, item in enumerate(value.__defaults__ or ())]
    parts += [(f"(default {name})", item) for name, item in (value.__kwdefaults__ or {}).items()]
    parts += [(f".{name}", cell) for name, cell in cells]
    return "function", f"{value.__module__}:{value.__qualname__}", parts


def _code(value: types.CodeType) -> Any:
    counts = value.co_argcount, value.co_posonlyargcount, value.co_kwonlyargcount, value.co_flags
    names = value.co_names, value.co_varnames, value.co_cellvars, value.co_freevars
    # `co_code` is neither specialized nor instrumented, however often the function was called.
    code = value.co_code.hex(), value.co_exceptiontable.hex()
    head = [value.co_qualname, *counts, *map(list, names), *code]
    return CODE, head, [(f"(constant {i})", item) for i, item in enumerate(value.co_consts)]


def _cell(value: types.CellType) -> Any:
    try:
        return "cell", None, [("", value.cell_contents)]
    except ValueError:  # a variable that was not assigned yet
        return "cell", "empty", []


def _method(value: types.MethodType) -> Any:
    return "method", None, [("(function)", value.__func__), ("", value.__self__)]


def _builtin(value: Any) -> Any:
    owner = value.__self__
    if owner is not None and not isinstance(owner, types.ModuleType):
        return "method", value.__name__, [("", owner)]
    module = value.__module__ or getattr(owner, "__name__", None)
    return "name", f"{module}:{value.__qualname__}", []


def _cached(value: Any) -> Any:
    if name := name_of(value):
        return "name", name, []
    parameters = sorted(value.cache_parameters().items())
    return "cached", list(map(list, parameters)), [("", value.__wrapped__)]


def _descriptor(value: Any) -> Any:
    return "descriptor", value.__name__, [("(class)", value.__objclass__)]


CODE_READERS: dict[type, Callable[[Any], Any]] = {
    types.FunctionType: _function,
    types.CodeType: _code,
    types.CellType: _cell,
    types.MethodType: _method,
    types.BuiltinFunctionType: _builtin,
    types.MethodWrapperType: _builtin,
    types.WrapperDescriptorType: _descriptor,
    types.MethodDescriptorType: _descriptor,
    types.ClassMethodDescriptorType: _descriptor,
    types.MemberDescriptorType: _descriptor,
    types.GetSetDescriptorType: _descriptor,
    type(functools.lru_cache(len)): _cached,
}
