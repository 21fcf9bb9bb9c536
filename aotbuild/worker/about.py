"""What a function's source says of it, for the index: docstring, parameters, names of leaves."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from aotbuild.format.about import (
    RESULT,
    UNKNOWN,
    About,
    Parameter,
    find_labels,
    join_abouts,
    with_inputs,
)
from aotbuild.format.canonical import canonical_json
from aotbuild.format.signature import Function
from aotbuild.format.tree import Tree
from aotbuild.format.values import NotEncodable, cut, encode, is_plain

# Characters of a docstring, and of one encoded default.
_LONGEST_DOC = 4_000
_LONGEST_DEFAULT = 200


def about_source(function: Any, signature: inspect.Signature) -> About:
    """Return the docstring and the parameters of a function."""
    parameters = tuple(map(_parameter, signature.parameters.values()))
    return About(doc=cut(_docstring(function), _LONGEST_DOC), parameters=parameters)


def with_labels(
    function: Function,
    tree: Tree,
    paths: Sequence[Sequence[Any]],
    out_tree: Tree,
    out_paths: Sequence[Sequence[Any]],
) -> Function:
    """Return a function with the names of the leaves; the paths are those of jax."""
    steps, out_steps = ([tuple(map(str, path)) for path in each] for each in (paths, out_paths))
    found = [
        About.from_json(function.about),
        find_labels(tree, steps),
        find_labels(with_inputs(out_tree, tree), out_steps, (RESULT,)),
    ]
    return replace(function, about=join_abouts(found).to_json())


def without_paths(function: Function, secret_paths: Iterable[bytes]) -> tuple[Function, list[str]]:
    """Return a function whose description names no path of this machine; and notes about it."""
    about, secrets = About.from_json(function.about), list(secret_paths)

    def is_secret(value: Any) -> bool:
        data = canonical_json(value)
        return any(path in data for path in secrets)

    if not is_secret(function.about):
        return function, []
    doc = "" if is_secret(about.doc) else about.doc
    notes = [] if doc == about.doc else ["its docstring names a path of this machine: left out"]
    parameters = (
        replace(p, default=UNKNOWN) if p.has_default and is_secret(p.default) else p
        for p in about.parameters
    )
    cleaned = replace(about, doc=doc, parameters=tuple(parameters))
    return replace(function, about=cleaned.to_json()), notes


def _docstring(function: Any) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    routine = inspect.isroutine(function) or isinstance(function, type)
    found = function.__doc__ if routine else type(function).__call__.__doc__ or function.__doc__
    return inspect.cleandoc(found) if isinstance(found, str) else ""


def _parameter(parameter: inspect.Parameter) -> Parameter:
    kind = parameter.kind.name.lower()
    if parameter.default is inspect.Parameter.empty:
        return Parameter(parameter.name, kind)
    return Parameter(parameter.name, kind, _default(parameter.default))


def _default(value: Any) -> Any:
    try:
        found = encode(value)
    except (NotEncodable, RecursionError):
        return UNKNOWN
    is_named = isinstance(found, dict) and "name" in found
    is_short = len(canonical_json(found)) <= _LONGEST_DEFAULT
    return found if is_short and (is_named or is_plain(found)) else UNKNOWN
