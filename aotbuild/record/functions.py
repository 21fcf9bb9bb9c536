"""What a call log says of a function: its name, its parameters, and what its jit was told."""

from __future__ import annotations

import functools
import inspect
import sys
from collections import Counter
from types import CodeType
from typing import Any

from aotbuild.format.canonical import as_utf8
from aotbuild.format.values import import_object
from aotbuild.record import private
from aotbuild.record.call_log import ObservedFunction
from aotbuild.record.names import GlobalNames, importable

_LAMBDA = "it is a lambda: define it with def at the top of its module"
_CLOSURE = "it is defined inside a function: define it, or assign its jit, at the top of its module"
_PROGRAM = (
    "it is in a file that is run as a program: move it into a module that the program imports"
)
_ELSEWHERE = "no name leads to it: assign its jit to a name at the top of a module"
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
# Looking at all globals takes many milliseconds, and a program may make a jit of a lambda in each
# step: when so many functions of one piece of code had no name, the next ones have none either.
_MOST_SEARCHES = 8
_in_vain: Counter[Any] = Counter()


def is_of_jax(function: Any) -> bool:
    """Return whether a function is jax's own: an operation that was called outside of any jit."""
    module = getattr(function, "__module__", None) or ""
    return module.partition(".")[0] in ("jax", "jaxlib") or hasattr(function, "_apply_primitive")


def describe_function(
    function: Any, info: Any, wrap: str = "", wrapper: Any = None
) -> ObservedFunction:
    """Return a function that was called under a jit, whose options are `info`.

    `wrapper` is what the program called, if it is not what `jax.jit` returned.
    """
    source = _source_of(function)
    call, problem = _name_of(function, info, wrapper)
    positional, keywords, strange = _parameters(function)
    file, line = _place_of(source)
    names = [*positional, *keywords]
    return ObservedFunction(
        call=call,
        problem=problem or strange,
        file=file,
        line=line,
        positional=positional,
        keywords=keywords,
        static=_named(names, positional, info, "static"),
        donate=_named(names, positional, info, "donate"),
        wrap=wrap,
        options=_options(info),
    )


# --- the name -----------------------------------------------------------------------------------


def _name_of(function: Any, info: Any, wrapper: Any) -> tuple[str, str]:
    """Return `module:qualname`, and why it does not lead to the function."""
    source: Any = _source_of(function)
    module: str = getattr(source, "__module__", None) or "?"
    qualname = str(getattr(source, "__qualname__", getattr(source, "__name__", "?")))
    name = f"{module}:{qualname}"
    if not _leads_to(module, qualname, function, info, wrapper):
        # A global that is the jitted function, or has it: `step = jax.jit(env.step)`.
        code = getattr(source, "__code__", type(source))
        is_hopeless = _in_vain[code] >= _MOST_SEARCHES
        alias = None if is_hopeless else _alias_of(function, info, wrapper)
        if alias is None:
            _in_vain[code] += 1
            return f"{importable(module) or module}:{qualname}", _reason(qualname)
        name = alias
    module, _, qualname = name.partition(":")
    known = importable(module)
    return f"{known or module}:{qualname}", "" if known else _PROGRAM


def _reason(qualname: str) -> str:
    if "<lambda>" in qualname:
        return _LAMBDA
    return _CLOSURE if "<locals>" in qualname else _ELSEWHERE


def _leads_to(module: str, qualname: str, function: Any, info: Any, wrapper: Any) -> bool:
    try:
        found = import_object(f"{module}:{qualname}") if module in sys.modules else None
    except (AttributeError, ImportError, ValueError):
        return False
    return found is not None and _is_same(found, function, info, wrapper)


def _is_same(found: Any, function: Any, info: Any, wrapper: Any) -> bool:
    """Return whether a global is the function, its jit, or a decorated form of either."""
    seen: set[int] = set()
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        if found is wrapper or found is function or found == function:
            return True
        if private.is_jitted(found):
            inside, its_info = private.inner_function(found)
            return inside is function and (info is None or its_info is info)
        found = getattr(found, "__wrapped__", None)
    return False


def _alias_of(function: Any, info: Any, wrapper: Any) -> str | None:
    names = GlobalNames()
    if wrapper is not None:
        return names.name(wrapper)
    for value, name in names.found():
        if private.is_jitted(value):
            inside, its_info = private.inner_function(value)
            if inside is function and its_info is info:
                return name
    return _method_name(function, names)


def _method_name(function: Any, names: GlobalNames) -> str | None:
    """Return the name of a bound method of a global, as `module:env.step`."""
    if not inspect.ismethod(function):
        return None
    owner = names.name(function.__self__)
    return f"{owner}.{function.__name__}" if owner else None


# --- the source ---------------------------------------------------------------------------------


def _source_of(function: Any) -> Any:
    """Return the Python function inside a callable."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.unwrap(getattr(function, "__func__", function))


def _place_of(source: Any) -> tuple[str, int]:
    code = getattr(source, "__code__", None)
    if not isinstance(code, CodeType):
        return "", 0
    return as_utf8(code.co_filename), code.co_firstlineno


# --- the parameters -----------------------------------------------------------------------------


def _parameters(function: Any) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """Return the names of parameters by position and by keyword only, and what is strange."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return (), (), "its parameters cannot be read: wrap it in a function with def"
    positional = tuple(each.name for each in parameters if each.kind in _POSITIONAL)
    keywords = tuple(each.name for each in parameters if each.kind is each.KEYWORD_ONLY)
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    strange = [f"{stars[each.kind]}{each.name}" for each in parameters if each.kind in stars]
    problem = f"it takes {strange[0]}: give its parameters names" if strange else ""
    return positional, keywords, problem


def _named(names: list[str], positional: tuple[str, ...], info: Any, what: str) -> tuple[str, ...]:
    """Return the parameters that a jit was given by position or name, as `static` ones."""
    numbers = getattr(info, f"{what}_argnums", ()) or ()
    given = set(getattr(info, f"{what}_argnames", ()) or ())
    given |= {positional[i] for i in numbers if -len(positional) <= i < len(positional)}
    return tuple(name for name in names if name in given)


def _options(info: Any) -> dict[str, Any]:
    """Return what else a jit was told, as the manifest has it."""
    found: dict[str, Any] = {}
    if getattr(info, "keep_unused", False):
        found["keep_unused"] = True
    options = {
        name: value if isinstance(value, bool | int | float | str) else str(value)
        for name, value in getattr(info, "compiler_options_kvs", ()) or ()
    }
    if options:
        found["compiler_options"] = options
    return found
