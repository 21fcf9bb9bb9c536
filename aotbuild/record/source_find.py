"""Functions that a manifest can name, from the jits of a module and what they wrap."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from aotbuild.format.wrap import FILTER_JIT
from aotbuild.record.source import FunctionNode, ModuleSource
from aotbuild.record.source_avals import TODO, shorten
from aotbuild.record.source_functions import (
    Found,
    LeftOut,
    SourceArgument,
    SourceFunction,
    SourceStatic,
)
from aotbuild.record.source_jits import JitPlace, find_jits
from aotbuild.record.source_parameters import (
    SourceParameter,
    SourceParameters,
    maker_of,
    of_function,
    of_value,
    parameters_of,
    type_name,
)
from aotbuild.record.source_shardings import sharding_options
from aotbuild.record.source_static import (
    is_never_an_array,
    named_arguments,
    static_argument,
)

# What a person does who wants to compile calls with a value that no manifest can write.
_BIND = "give call: a functools.partial at the top of the module that has it"


def find_functions(module: ModuleSource, names: Iterable[str] = ()) -> Found:
    """Return the jitted functions of a module; with `names`, these alone, jitted or not.

    LookupError for a name that the module does not define.
    """
    found = [_described(module, each) for each in find_jits(module)]
    functions = [each for each in found if isinstance(each, SourceFunction)]
    left_out = [each for each in found if isinstance(each, LeftOut)]
    jitted = {each.call.partition(":")[2] for each in functions}
    others = (name for name in module.functions if name not in jitted and name[0] != "_")
    plain = tuple(f"{module.name}:{name}" for name in others)
    wanted = list(dict.fromkeys(names))
    if wanted:
        left_out, plain = [], ()
        functions = [_named(module, name, functions) for name in wanted]
    others_left_out = {each.call: reason for each in functions if (reason := _foreign_name(each))}
    functions = [each for each in functions if each.call not in others_left_out]
    return Found(tuple(functions), (*left_out, *others_left_out.values()), plain)


def _foreign_name(function: SourceFunction) -> LeftOut | None:
    """Return that no manifest can write a name of a function, if it is not in ASCII."""
    arguments = (*(function.args or ()), *function.kwargs)
    names = [*(each.name for each in arguments), *(each.name for each in function.static)]
    name = next((each for each in names if not each.isascii()), "")
    what = f"{function.jit or 'the function'} {function.call}"
    if not function.call.isascii():
        reason = "its name is not in ASCII, and no manifest can write it"
        remedy = "Give it another name at the top of a module, and write that under call:"
    elif name:
        reason = f"its argument {name} is not in ASCII, and no manifest can write it"
        remedy = "Rename the argument, or write a function around it that has other names"
    else:
        return None
    return LeftOut(function.file, function.line, what, reason, remedy)


def _named(module: ModuleSource, name: str, functions: Sequence[SourceFunction]) -> SourceFunction:
    """Return the function of a name, whether or not it is under a jit."""
    for function in functions:
        if function.call == f"{module.name}:{name}":
            return function
    node: ast.AST | None = module.functions.get(name)
    owner, _, method = name.rpartition(".")
    if owner in module.classes:
        body = module.classes[owner].body
        node = next((n for n in body if isinstance(n, FunctionNode) and n.name == method), None)
    if name in module.assigned:
        value = module.assigned[name]
        found = SourceFunction(f"{module.name}:{name}", module.file, value.lineno, "")
        parameters = of_value(module, value)
        return _complete(module, found, parameters, {}, parameters.positional)
    if not isinstance(node, FunctionNode):
        raise LookupError(name)
    parameters = of_function(module, node)
    found = SourceFunction(f"{module.name}:{name}", module.file, node.lineno, "")
    if owner:
        parameters = _method(module, parameters, node, module.classes[owner])
    return _complete(module, found, parameters, {}, parameters.positional)


def _described(module: ModuleSource, place: JitPlace | LeftOut) -> SourceFunction | LeftOut:
    if isinstance(place, LeftOut):
        return place
    parameters, qualname = parameters_of(module, place), place.qualname
    line = place.function.lineno if place.function else place.line
    # Positions in the options count the object of a method, too.
    positional = parameters.positional
    if place.owner and place.function:
        problem, instance = _reached(module, place.function, place)
        if problem:
            return problem
        if instance:
            # Neither the manifest nor a call has the object.
            qualname = f"{instance}.{place.function.name}"
            parameters = replace(parameters, each=parameters.each[1:])
        else:
            parameters = _method(module, parameters, place.function, place.owner)
    found = SourceFunction(f"{module.name}:{qualname}", module.file, line, place.jit.kind)
    return _complete(module, found, parameters, place.jit.options, positional)


def _reached(
    module: ModuleSource, node: FunctionNode, place: JitPlace
) -> tuple[LeftOut | None, str]:
    """Return why no name leads to a method, and the global instance that its static object is."""
    owner = place.owner.name if place.owner else ""
    what = f"{place.jit.kind} of {place.qualname}"
    kinds = {module.dotted(each).rpartition(".")[2] for each in place.outside}
    if kinds & {"property", "cached_property"}:
        remedy = "Write a function that takes the object, and put the jit around it"
        return LeftOut(module.file, node.lineno, what, "is a property", remedy), ""
    positional = [one.arg for one in (*node.args.posonlyargs, *node.args.args)]
    statics, _ = named_arguments(module, place.jit.options, "static", positional)
    has_object = positional and not kinds & {"staticmethod", "classmethod"}
    if not has_object or positional[0] not in statics:
        return None, ""
    instance = _instance(module, owner)
    if instance:
        return None, instance
    reason = f"its {positional[0]} is static, which no manifest can write"
    remedy = (
        f"Give an instance a name at the top of the module, instance = {owner}(…), and "
        f"write call: {module.name}:instance.{node.name}"
    )
    return LeftOut(module.file, node.lineno, what, reason, remedy), ""


def _instance(module: ModuleSource, owner: str) -> str:
    """Return the one global name whose value is an instance of a class; empty without one."""
    names = [
        name
        for name, value in module.assigned.items()
        if isinstance(value, ast.Call) and module.dotted(value.func) == owner
    ]
    return names[0] if len(names) == 1 else ""


def _method(
    module: ModuleSource, parameters: SourceParameters, node: FunctionNode, owner: ast.ClassDef
) -> SourceParameters:
    """Return the parameters of a method: its object is an argument of the class's type."""
    kinds = {module.dotted(each).rpartition(".")[2] for each in node.decorator_list}
    if "staticmethod" in kinds or not parameters.each:
        return parameters
    first, *others = parameters.each
    if "classmethod" in kinds:
        return replace(parameters, each=tuple(others))
    typed = replace(first, annotation=ast.Name(owner.name, ast.Load()), found=None)
    return replace(parameters, each=(typed, *others))


# --- the entry ------------------------------------------------------------------------------------


def _complete(
    module: ModuleSource,
    found: SourceFunction,
    parameters: SourceParameters,
    options: dict[str, ast.expr],
    positional: Sequence[str],
) -> SourceFunction:
    """Return a function with its arguments, static values and options.

    `positional` are the names that positions in the options count.
    """
    statics, notes = named_arguments(module, options, "static", positional)
    each = parameters.each
    statics |= {one.name for one in each if is_never_an_array(module, found.jit, one)}
    static = [s for one in each if one.name in statics and (s := static_argument(module, one))]
    if not parameters.known:
        static = [SourceStatic(name) for name in sorted(statics)]
    left = [one for one in each if one.name not in statics and one.default is None]
    listed = [*(one.name for one in static), *(one.name for one in left)]
    notes += [*_static_notes(static), *_default_notes(each, listed)]
    traced = [one.name for one in each if one.name not in statics and not one.is_keyword]
    told, more = _options(module, found.jit, options, positional, traced)
    arguments = [(_argument(module, one), one.is_keyword) for one in left]
    return replace(
        found,
        args=tuple(arg for arg, by_name in arguments if not by_name) if parameters.known else None,
        kwargs=tuple(arg for arg, by_name in arguments if by_name),
        static=tuple(static),
        options=_of_listed(told, listed) if parameters.known else told,
        notes=(*parameters.notes, *notes, *more),
    )


def _static_notes(static: Iterable[SourceStatic]) -> list[str]:
    """Return why no value of a static argument can be written."""
    return [f"{one.name}: {one.origin}; {_BIND}" for one in static if not one.values and one.origin]


def _default_notes(each: Iterable[SourceParameter], listed: Sequence[str]) -> list[str]:
    """Return a note on the parameters that the manifest leaves out."""
    defaults = [
        f"{one.name}={shorten(ast.unparse(one.default))}"
        for one in each
        if one.default is not None and one.name not in listed
    ]
    return [f"left at their defaults: {', '.join(defaults)}"] if defaults else []


def _of_listed(options: dict[str, Any], listed: Sequence[str]) -> dict[str, Any]:
    """Return options without what they say of arguments that the manifest leaves out."""
    found = dict(options)
    if "donate" in found:
        found["donate"] = [name for name in found["donate"] if name in listed]
    if "in_shardings" in found:
        given = found["in_shardings"].items()
        found["in_shardings"] = {name: each for name, each in given if name in listed}
        if not found["in_shardings"] and "out_shardings" not in found:
            del found["mesh"]
    return {key: value for key, value in found.items() if value or key == "out_shardings"}


def _argument(module: ModuleSource, parameter: SourceParameter) -> SourceArgument:
    """Return an argument with its spec: what the source says, a tree that it makes, or TODO."""
    if parameter.found:
        return SourceArgument(parameter.name, parameter.found.spec, parameter.found.origin)
    kind = type_name(parameter.annotation)
    maker, hint = maker_of(module, kind) if kind else (None, "")
    if maker:
        return SourceArgument(parameter.name, f'{{like: "{module.name}:{maker}"}}', hint)
    shown = ast.unparse(parameter.annotation) if parameter.annotation else ""
    return SourceArgument(parameter.name, TODO, hint or shorten(shown))


def _options(
    module: ModuleSource,
    jit: str,
    options: dict[str, ast.expr],
    positional: Sequence[str],
    traced: Sequence[str],
) -> tuple[dict[str, Any], list[str]]:
    """Return the manifest's options of what a jit was told, and notes on the rest."""
    donated, notes = named_arguments(module, options, "donate", positional)
    found, more = sharding_options(module, options, traced)
    notes += more
    # What equinox's jit donates is read from the decorator when it is compiled.
    if donated and jit != FILTER_JIT:
        found["donate"] = [name for name in positional if name in donated]
        found["donate"] += sorted(donated - {*positional})
    for option in ("keep_unused", "compiler_options"):
        try:
            value = module.literal(options.get(option))
            found |= {option: value} if value else {}
        except ValueError:
            notes.append(f"its {option} is no literal; write it under {option}:")
    for option in ("device", "backend"):
        if option in options:
            notes.append(f"its {option} has no effect: targets: says where it runs")
    return found, notes
