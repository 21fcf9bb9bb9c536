"""The lines of a manifest that have a call compiled."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterator
from typing import Any

import jax

from aotbuild.format.aval import NotAnArray
from aotbuild.record import private
from aotbuild.record.global_names import GlobalNames
from aotbuild.record.private import JitCall
from aotbuild.runtime.jax.private import aval_of

# What stands where only the user knows the name.
_NAME = "MODULE:NAME"


def manifest_lines(function: str, call: JitCall, wrap: str) -> list[str]:
    """Return the lines of an entry under `functions:`; none if no manifest can name the function.

    `function` is the name that the function says of itself.
    """
    name = _importable(function, call)
    return list(_lines(name, call, wrap)) if name else []


def arguments(call: JitCall) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arguments that are arrays and those that are static, by the parameter's name."""
    names = _positional(call.function)
    args = call.args or ()
    names += [f"argument {position}" for position in range(len(names), len(args))]
    given = dict(zip(names, args, strict=False)) | dict(call.kwargs or {})
    static = {*call.static_names, *(names[i] for i in call.static_positions if i < len(names))}
    dynamic = {name: value for name, value in given.items() if name not in static}
    return dynamic, {name: given[name] for name in given if name in static}


def _positional(function: Any) -> list[str]:
    """Return the names of the parameters that may be passed by position, in order."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [parameter.name for parameter in parameters if parameter.kind in kinds]


def _importable(function: str, call: JitCall) -> str | None:
    """Return the name by which a build can import a function, or None."""
    module, _, qualname = function.partition(":")
    names = GlobalNames()
    if inspect.ismethod(call.function):
        owner = names.name(call.function.__self__)
        return owner and f"{owner}.{call.function.__name__}"
    if call.function is not None and not hasattr(call.function, "__qualname__"):
        return names.name(call.function)
    found: Any = sys.modules.get(module) if module != "__main__" else None
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return function if found is not None else names.name(call.function)


def _lines(name: str, call: JitCall, wrap: str) -> Iterator[str]:
    dynamic, statics = arguments(call)
    yield f"{name.rpartition(':')[2].rpartition('.')[2]}:"
    yield f"  call: {name}"
    if wrap:
        yield f"  wrap: {wrap}"
    if dynamic:
        yield "  args:"
        yield from (f"    - {name}: {_spec(value)}" for name, value in dynamic.items())
    if statics:
        values = (f"{name}: [{_yaml(value)}]" for name, value in statics.items())
        yield f"  static: {{{', '.join(values)}}}"


def _spec(value: Any) -> str:
    """Return the spec of a tree in YAML's flow style; a type that has none is named by `like:`."""
    if value is None:
        return "null"
    if type(value) is dict and all(isinstance(key, str) for key in value):
        return f"{{{', '.join(f'{key}: {_spec(value[key])}' for key in sorted(value))}}}"
    if type(value) in (list, tuple):
        return f"[{', '.join(map(_spec, value))}]"
    if jax.tree_util.all_leaves([value]):
        try:
            return json.dumps(_aval(value))
        except NotAnArray:
            pass
    return f'{{like: "{_NAME}"}}'


def _aval(leaf: Any) -> str:
    if private.is_placeholder(leaf):
        return private.aval_text(getattr(leaf, "aval", leaf))
    return str(aval_of(leaf))


def _yaml(value: Any) -> str:
    is_plain = isinstance(value, bool | int | float | str) or value is None
    return json.dumps(value if is_plain else _NAME)
