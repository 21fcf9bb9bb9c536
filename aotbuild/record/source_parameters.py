"""The parameters of what a jit wraps: names, kinds, defaults, and what the source says of each."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from aotbuild.record.source import FunctionNode, ModuleSource
from aotbuild.record.source_avals import (
    TODO,
    FoundSpec,
    of_annotation,
    of_comment,
    of_docstring,
    parsed,
    without_none,
)
from aotbuild.record.source_jits import JitPlace

_PARTIAL = ("functools.partial", "jax.tree_util.Partial")
# Transformations whose result has the parameters of what they wrap, and arrays of the same shapes.
_SAME = {
    *("grad", "value_and_grad", "filter_grad", "filter_value_and_grad", "jacfwd", "jacrev"),
    *("jacobian", "hessian", "checkpoint", "remat", "filter_checkpoint", "named_call"),
    *("custom_vjp", "custom_jvp", "filter_custom_vjp", "filter_custom_jvp", "wraps"),
    *("jaxtyped", "typechecked", "typecheck", "beartype", "staticmethod", "classmethod"),
    *(
        "jit",
        "pjit",
        "filter_jit",
        "override",
        "named_scope",
        "profile_function",
        "annotate_function",
    ),
}
# Those whose arrays have another shape.
_OTHER_SHAPES = {"vmap", "filter_vmap", "pmap", "shard_map", "scan", "xmap", "vectorize"}


@dataclass(frozen=True)
class SourceParameter:
    """A parameter; `found` is what the source says of its array."""

    name: str
    is_keyword: bool = False
    annotation: ast.expr | None = None
    default: ast.expr | None = None
    found: FoundSpec | None = None


@dataclass(frozen=True)
class SourceParameters:
    """The parameters of a function; `known` is False if the source does not have them."""

    each: tuple[SourceParameter, ...] = ()
    known: bool = True
    notes: tuple[str, ...] = ()

    @property
    def positional(self) -> list[str]:
        """The names of those that are passed by position."""
        return [parameter.name for parameter in self.each if not parameter.is_keyword]


def parameters_of(module: ModuleSource, place: JitPlace) -> SourceParameters:
    """Return the parameters of what a jit compiles."""
    if place.function is None:
        return of_value(module, place.jit.wrapped)
    found = _of_definition(module, place.function)
    for decorator in (*place.outside, *place.inside):
        found = _decorated(module, decorator, found)
    return found


def of_function(module: ModuleSource, node: FunctionNode) -> SourceParameters:
    """Return the parameters of a function that is not under a jit."""
    found = _of_definition(module, node)
    for decorator in node.decorator_list:
        found = _decorated(module, decorator, found)
    return found


def of_value(module: ModuleSource, node: ast.expr | None) -> SourceParameters:
    """Return the parameters of an expression: a name, a lambda, or a transformation of one."""
    if isinstance(node, ast.Lambda):
        return SourceParameters(tuple(_parameters(module, node.args, node.lineno)))
    if isinstance(node, ast.Name) and node.id in module.functions:
        return of_function(module, module.functions[node.id])
    if isinstance(node, ast.Name) and node.id in module.assigned:
        return of_value(module, module.assigned[node.id])
    if isinstance(node, ast.Call) and node.args:
        inner = of_value(module, node.args[0])
        if module.dotted(node.func) in _PARTIAL:
            return _without_bound(inner, node)
        if inner.known and _last(module, node.func) in _SAME | _OTHER_SHAPES:
            return _decorated(module, node.func, inner)
    shown = ast.unparse(node) if node is not None else "?"
    note = f"the parameters of {shown[:60]} are not in this module"
    return SourceParameters(known=False, notes=(note,))


def _without_bound(inner: SourceParameters, call: ast.Call) -> SourceParameters:
    """Leave out what a partial binds."""
    bound = {*inner.positional[: len(call.args) - 1], *(k.arg for k in call.keywords)}
    return replace(inner, each=tuple(each for each in inner.each if each.name not in bound))


def _decorated(
    module: ModuleSource, decorator: ast.expr, inner: SourceParameters
) -> SourceParameters:
    """Return the parameters under another decorator: without shapes, if it may change them."""
    last = _last(module, decorator)
    if last in _SAME:
        return inner
    if last not in _OTHER_SHAPES:
        return replace(inner, notes=(*inner.notes, f"{last or 'a decorator'} may change it"))
    each = tuple(
        replace(one, found=FoundSpec(TODO, f"{one.found.origin}, before {last}"))
        if one.found
        else one
        for one in inner.each
    )
    return replace(inner, each=each, notes=(*inner.notes, f"{last} changes its shapes"))


def _last(module: ModuleSource, node: ast.expr) -> str:
    """Return the last word of what a decorator is called, as `vmap`."""
    if isinstance(node, ast.Call):
        is_partial = module.dotted(node.func) in _PARTIAL and node.args
        return _last(module, node.args[0] if is_partial else node.func)
    return module.dotted(node).rpartition(".")[2]


def _of_definition(module: ModuleSource, node: FunctionNode) -> SourceParameters:
    docstring = ast.get_docstring(node) or ""
    each = tuple(_parameters(module, node.args, node.lineno, docstring))
    stars = ((node.args.vararg, "*", "args"), (node.args.kwarg, "**", "kwargs"))
    notes = tuple(
        f"it takes {star}{found.arg}: add what calls pass under {option}:"
        for found, star, option in stars
        if found
    )
    return SourceParameters(each, notes=notes)


def _parameters(
    module: ModuleSource, arguments: ast.arguments, line: int, docstring: str = ""
) -> Iterator[SourceParameter]:
    positional = [*arguments.posonlyargs, *arguments.args]
    missing = len(positional) - len(arguments.defaults)
    defaults = [*[None] * missing, *arguments.defaults, *arguments.kw_defaults]
    all_of_them = [*positional, *arguments.kwonlyargs]
    lines = [one.lineno for one in all_of_them]
    for place, (one, default) in enumerate(zip(all_of_them, defaults, strict=True)):
        last = (default.end_lineno if default else one.end_lineno) or one.lineno
        # A comment is about a parameter that has a line of its own.
        is_alone = lines.count(one.lineno) == 1 and one.lineno > line
        comment = module.comments.get(last, "") if is_alone else ""
        found = (
            of_annotation(module, one.annotation)
            or (of_comment(comment) if comment else None)
            or of_docstring(docstring, one.arg)
        )
        is_keyword = place >= len(positional)
        yield SourceParameter(one.arg, is_keyword, one.annotation, default, found)


# --- trees ----------------------------------------------------------------------------------------


def maker_of(module: ModuleSource, name: str) -> tuple[str | None, str]:
    """Return the one function without parameters that returns a type of the module, and a hint.

    The hint names several, if there are several.
    """
    found = [made for made, node in module.functions.items() if _makes(module, node, name)]
    if len(found) == 1:
        return found[0], f"{found[0]}() returns a {name}"
    return None, f"a {name}, of {' or '.join(f'{made}()' for made in found)}" if found else ""


def type_name(node: ast.expr | None) -> str:
    """Return the name of the type that an annotation is; empty if it is no plain name."""
    found = without_none(node)
    return found.id if isinstance(found, ast.Name) else ""


def _makes(module: ModuleSource, node: FunctionNode, name: str) -> bool:
    arguments = node.args
    required = len(arguments.posonlyargs) + len(arguments.args) - len(arguments.defaults)
    if required or None in arguments.kw_defaults or node.decorator_list:
        return False
    if node.returns is not None:
        returned = parsed(node.returns)
        return isinstance(returned, ast.Name) and returned.id == name
    # A class that is called returns an instance of it.
    returns = [sub.value for sub in ast.walk(node) if isinstance(sub, ast.Return)]
    return bool(returns) and name in module.classes and all(_calls(one, name) for one in returns)


def _calls(node: ast.expr | None, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
