"""From a recorded call to the signature that a package would look up, and to text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from aotbuild.format.aval import Aval
from aotbuild.format.constructions import without_constructions
from aotbuild.format.signature import Function, Signature
from aotbuild.format.tree import HEADS, LEAF, Tree, children_of
from aotbuild.format.values import shown
from aotbuild.record.recording import RecordedArgument, RecordedCall

# The child of `(args, kwargs)` that holds the arguments by position, and those by name.
_ARGS, _KWARGS = 0, 1
_MOST_AVALS = 2


class NoSignature(ValueError):
    """A call has no signature of a function; the message says why."""


def call_text(call: RecordedCall) -> str:
    """Return the arguments of a call, as `params 24 arrays, x f32[8,16], causal=True`."""
    parts = [f"{each.name} {_avals_text(each.leaves)}" for each in call.arguments]
    parts += [f"{name}={shown(value)}" for name, value in call.statics]
    parts += [f"{name}={value}" for name, value in sorted(call.config.items())]
    parts += [f"mesh {', '.join(f'{k}={v}' for k, v in call.mesh.items())}"] if call.mesh else []
    return ", ".join(parts) or "no arguments"


def _avals_text(leaves: Sequence[Aval]) -> str:
    if not leaves:
        return "no array"
    return ", ".join(map(str, leaves)) if len(leaves) <= _MOST_AVALS else f"{len(leaves)} arrays"


def signature_of(
    function: Function, call: RecordedCall, *, with_references: bool = False
) -> Signature:
    """Return the signature of a call; NoSignature if it has other arguments than the function.

    With `with_references`, static data that a call compares with that of a template is taken to be
    the same: only the process that calls can compare it.
    """
    given = {argument.name: argument for argument in call.arguments}
    order = [*function.dynamic, *sorted(function.keywords)]
    _check_names(given.keys(), order)
    arguments = [given[name] for name in order]
    for argument in arguments:
        if argument.tree is None:
            msg = f"{argument.name}: {argument.problem or 'its tree is unknown'}"
            raise NoSignature(msg)
    trees = [without_constructions(argument.tree) for argument in arguments]
    count = len(function.dynamic)
    tree = [
        "tuple",
        ["tuple", *trees[:count]],
        ["dict", sorted(function.keywords), *trees[count:]],
    ]
    tree = _as_compared(tree, function, with_references=with_references)
    leaves = tuple(leaf for argument in arguments for leaf in argument.leaves)
    return Signature(tree, leaves, _statics(function, call))


def shardings_of(function: Function, call: RecordedCall) -> list[Any]:
    """Return the PartitionSpec of each leaf, in the order of the signature; None for one device."""
    given = {argument.name: argument for argument in call.arguments}
    order = [*function.dynamic, *sorted(function.keywords)]
    return [spec for name in order for spec in _specs(given[name])]


def _specs(argument: RecordedArgument) -> Sequence[Any]:
    return argument.shardings or (None,) * len(argument.leaves)


def _check_names(given: Iterable[str], wanted: Sequence[str]) -> None:
    given = [*given]
    extra = [name for name in given if name not in wanted]
    lacking = [name for name in wanted if name not in given]
    if lacking:
        msg = f"compiled with the argument {lacking[0]}, called without it"
        raise NoSignature(msg)
    if extra:
        msg = f"compiled without the argument {extra[0]}, called with it"
        raise NoSignature(msg)


def _statics(function: Function, call: RecordedCall) -> tuple[tuple[str, Any], ...]:
    """Return all static values, with the defaults that a call left out."""
    given = dict(call.statics)
    names = {static.name for static in function.statics}
    extra = sorted(given.keys() - names)
    if extra:
        msg = f"{extra[0]} is static in the program, and is no static argument of what is compiled"
        raise NoSignature(msg)
    found = {}
    for static in function.statics:
        if static.name not in given and not static.has_default:
            msg = f"compiled with the static argument {static.name}, called without it"
            raise NoSignature(msg)
        found[static.name] = given.get(static.name, static.default)
    return tuple(sorted(found.items()))


# --- static data that a function compares in another way ----------------------------------------


def _as_compared(tree: Tree, function: Function, *, with_references: bool) -> Tree:
    """Return a tree as calls of a function compare it."""
    tree = _with_aliases(tree, dict(function.aliases))
    for _, path, index in function.ignored:
        tree = _replaced(tree, path, index, {"ignored": True})
    for _, path, index, like in function.references if with_references else ():
        tree = _replaced(tree, path, index, {"reference": like})
    return tree


def _with_aliases(data: Any, aliases: dict[str, str]) -> Any:
    if not aliases:
        return data
    if isinstance(data, dict):
        body = data.get("fingerprint")
        if isinstance(body, list) and len(body) == 2 and body[1] in aliases:
            return {"fingerprint": [body[0], aliases[body[1]]]}
        return {key: _with_aliases(value, aliases) for key, value in data.items()}
    return [_with_aliases(item, aliases) for item in data] if isinstance(data, list) else data


def _replaced(tree: Tree, path: Sequence[int], index: int | None, by: Any) -> Tree:
    """Return a tree with other static data of the node at a path; itself if there is none."""
    if tree == LEAF:
        return tree
    if path:
        children, at = children_of(tree), path[0]
        if at >= len(children):
            return tree
        children[at] = _replaced(children[at], path[1:], index, by)
        return [*tree[: HEADS[tree[0]]], *children]
    if tree[0] != "node":
        return tree
    return [*tree[:2], _data_replaced(tree[2], index, by), *tree[3:]]


def _data_replaced(data: Any, index: int | None, by: Any) -> Any:
    if index is None:
        return by
    if isinstance(data, dict) and "ordered" in data:
        names, inner = data["ordered"]
        return {"ordered": [names, _data_replaced(inner, index, by)]}
    items = data.get("tuple") if isinstance(data, dict) else None
    if not isinstance(items, list) or index >= len(items):
        return data
    return {"tuple": [*items[:index], by, *items[index + 1 :]]}
