"""Static arguments: which ones a jit has, and the values that the source says they have."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from aotbuild.format.wrap import FILTER_JIT
from aotbuild.record.source import ModuleSource
from aotbuild.record.source_avals import parsed, shorten, without_none
from aotbuild.record.source_functions import SourceStatic
from aotbuild.record.source_parameters import SourceParameter

_SCALARS = (type(None), bool, int, float, str)
# Under equinox's jit, and without any jit, these are never arrays.
_STATIC_TYPES = {"bool", "str"}
_NUMBERS = {"int", "float"}


def named_arguments(
    module: ModuleSource, options: dict[str, ast.expr], kind: str, positional: Sequence[str]
) -> tuple[set[str], list[str]]:
    """Return the arguments that `static_argnums` and `static_argnames` name, and notes.

    `kind` is `static` or `donate`.
    """
    names: set[str] = set()
    notes = []
    for option in (f"{kind}_argnums", f"{kind}_argnames"):
        try:
            value = module.literal(options.get(option))
        except ValueError:
            notes.append(f"its {option} are no literal: {shorten(ast.unparse(options[option]))}")
            continue
        each = value if isinstance(value, tuple | list | set | frozenset) else (value,)
        names |= {one for one in each if isinstance(one, str)}
        places = [one for one in each if isinstance(one, int) and not isinstance(one, bool)]
        names |= {positional[p] for p in places if -len(positional) <= p < len(positional)}
        if places and not positional:
            notes.append(f"its {option} are {', '.join(map(str, places))}")
    return names, notes


def is_never_an_array(module: ModuleSource, jit: str, parameter: SourceParameter) -> bool:
    """Return whether calls pass no array, as the annotation or the default says.

    That makes it static where no jit says what is static, and under equinox's.
    """
    if jit not in ("", FILTER_JIT):
        return False
    node, default = without_none(parameter.annotation), parameter.default
    name = node.id if isinstance(node, ast.Name) else ""
    if name in _STATIC_TYPES or _literals(module, node) or _is_enum(module, node):
        return True
    if jit == FILTER_JIT and name in _NUMBERS:
        return True
    value = default.value if isinstance(default, ast.Constant) else None
    return node is None and isinstance(value, bool | str)


def static_argument(module: ModuleSource, parameter: SourceParameter) -> SourceStatic | None:
    """Return the values of a static argument, as its annotation and its default say.

    None if it has a default that no manifest can write: calls leave it out.
    """
    node, name = without_none(parameter.annotation), parameter.name
    literals = _literals(module, node)
    if literals:
        return SourceStatic(name, literals, shorten(ast.unparse(node)) if node else "")
    if isinstance(node, ast.Name) and node.id == "bool":
        return SourceStatic(name, (False, True), "bool")
    if parameter.default is None:
        is_enum = _is_enum(module, node)
        return SourceStatic(name, (), "no manifest has members of an Enum" if is_enum else "")
    try:
        value = module.literal(parameter.default)
    except ValueError:
        return None
    return SourceStatic(name, (value,), "its default") if _is_plain(value) else None


def _is_plain(value: object) -> bool:
    """Return whether a manifest can have a static value."""
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return isinstance(value, _SCALARS)


def _literals(module: ModuleSource, node: ast.expr | None) -> tuple[Any, ...]:
    """Return the values of `Literal["a", "b"]`."""
    found = parsed(node)
    if isinstance(found, ast.Name):
        followed = module.follow(found)
        found = followed if isinstance(followed, ast.Subscript) else None
    if not isinstance(found, ast.Subscript):
        return ()
    if module.dotted(found.value).rpartition(".")[2] != "Literal":
        return ()
    items = found.slice.elts if isinstance(found.slice, ast.Tuple) else [found.slice]
    values = [item.value for item in items if isinstance(item, ast.Constant)]
    return tuple(value for value in values if isinstance(value, _SCALARS))


def _is_enum(module: ModuleSource, node: ast.expr | None) -> bool:
    owner = module.classes.get(node.id) if isinstance(node, ast.Name) else None
    return owner is not None and any(
        module.dotted(base).rpartition(".")[2].endswith("Enum") for base in owner.bases
    )
