"""Host callbacks: those that can be found again by name where the executable is loaded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aotbuild.errors import TraceRefused
from aotbuild.format.record import HostCallback
from aotbuild.format.target import HOST, Target
from aotbuild.format.tree import LEAF, Tree, TreeRefused, children_of, describe
from aotbuild.format.values import NotEncodable, encode, is_plain, qualified_name
from aotbuild.worker import private as jax_private
from aotbuild.worker.leaves import to_aval

PRINT = "debug_print"
# The primitives, and the word of each in a record.
KINDS = {"pure_callback": "pure", "io_callback": "io", "debug_callback": "debug", PRINT: "print"}
# Those that change something outside of the program.
IMPURE = ("io_callback", "debug_callback")
# Containers that are restored without running code of a type.
_CONTAINERS = ("none", "tuple", "list", "dict", "namedtuple")
_OTHER_JAX = "this version of jax makes it in a way that is not known here"


class Unnamed(ValueError):
    """A callback cannot be found by a name in another process; the text says why."""


def check_equation(equation: Any) -> None:
    """Raise Unnamed if the callback of an equation has no name."""
    params = equation.params
    if params.get("partitioned"):
        msg = "it is called for each shard of an array"
        raise Unnamed(msg)
    if equation.primitive.name == PRINT:
        if params["logging_record"] is not None:
            msg = "it prints to a log"
            raise Unnamed(msg)
        _statics(dict(params["static_args"]))
        _tree(params["in_tree"])
        _plain_options(dict(params["np_printoptions"]))
        return
    _function(*_called_back(params["callback"]))


def check_target(call: str, target: Target) -> None:
    """Raise TraceRefused for a target whose executables cannot call back, as far as it is known."""
    if target.platform == HOST:
        return
    msg = (
        f"{call} calls back into Python, which only executables for CPUs can do, not those for "
        f"{target.platform}\nRemove the callback, or make a function without it for this target."
    )
    raise TraceRefused(msg)


def take_callbacks(call: str, stage: Any) -> tuple[HostCallback, ...]:
    """Return the callbacks of a lowered function, in the order of their indices.

    They are taken away from it, so this returns them once.
    """
    try:
        return tuple(_describe(*found) for found in jax_private.take_host_callbacks(stage))
    except (Unnamed, KeyError, AttributeError) as err:
        msg = f"{call} calls back into Python: {err if isinstance(err, Unnamed) else _OTHER_JAX}"
        raise TraceRefused(msg) from err


def _describe(rule: str, cells: dict[str, Any], results: list[Any], ordered: bool) -> HostCallback:
    function, treedef, statics = _called_back(cells["callback"])
    printing = jax_private.print_arguments(function)
    avals = tuple(map(to_aval, results))
    if printing is None:
        kind = KINDS[rule.removesuffix("_lowering")]
        name, tree, encoded = _function(function, treedef, statics)
        return HostCallback(kind, name, tree, encoded, avals, ordered)
    text, options, has_placeholders, _ = printing
    stated = {"format": text, "placeholders": has_placeholders, "options": _plain_options(options)}
    return HostCallback("print", "", _tree(treedef), _statics(statics), avals, ordered, stated)


def _called_back(flat: Any) -> tuple[Any, Any, dict[int, Any]]:
    try:
        return jax_private.called_back(flat)
    except KeyError as err:
        raise Unnamed(_OTHER_JAX) from err


def _function(
    function: Any, treedef: Any, statics: dict[int, Any]
) -> tuple[str, Tree, tuple[tuple[int, Any], ...]]:
    try:
        name = qualified_name(function)
    except NotEncodable as err:
        raise Unnamed(str(err)) from err
    if not all(part.isidentifier() for part in name.replace(":", ".").split(".")):
        msg = f"{name} is no name that can be imported"
        raise Unnamed(msg)
    return name, _tree(treedef), _statics(statics)


def _tree(treedef: Any) -> Tree:
    try:
        tree = describe(treedef)
    except TreeRefused as err:
        raise Unnamed(str(err)) from err
    for node in _nodes(tree):
        if node[0] not in _CONTAINERS or (node[0] == "dict" and not all(map(is_plain, node[1]))):
            msg = f"its arguments have a {node[0]} {node[1]} among them; pass arrays"
            raise Unnamed(msg)
    return tree


def _nodes(tree: Tree) -> Iterator[Any]:
    if tree != LEAF:
        yield tree
        for child in children_of(tree):
            yield from _nodes(child)


def _statics(values: dict[int, Any]) -> tuple[tuple[int, Any], ...]:
    """Return arguments that are not arrays, encoded; they have to be plain to be made again."""
    try:
        found = tuple((leaf, encode(value)) for leaf, value in sorted(values.items()))
    except NotEncodable as err:
        raise Unnamed(str(err)) from err
    for _, value in found:
        if not is_plain(value):
            msg = f"an argument is neither an array nor a plain value: {value}"
            raise Unnamed(msg)
    return found


def _plain_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return numpy's print options; a formatter of the user's has no name."""
    try:
        found = {name: encode(value) for name, value in options.items()}
    except NotEncodable as err:
        raise Unnamed(str(err)) from err
    if not all(map(is_plain, found.values())):
        msg = "numpy's print options have a formatter"
        raise Unnamed(msg)
    return found
