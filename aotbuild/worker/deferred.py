"""Trees of types that take arrays only, not the `ShapeDtypeStruct`s that stand for them in a build.

A probability distribution may convert or count its parameters where it is unflattened. jit gives
such a type arrays or tracers only. So its tree stays apart until then, in a `Deferred`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import jax

from aotbuild.format.tree import TreeRefused, describe
from aotbuild.worker import private as jax_private

# An entry of a key path: text, as `jax.tree_util.keystr` joins it.
Path = str


class PathText:
    """A whole key path as one entry of another."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text


class Deferred:
    """The leaves of a tree, and how to make the tree. It is a node with these leaves."""

    def __init__(self, treedef: Any, paths: tuple[Path, ...], leaves: tuple[Any, ...]) -> None:
        self.treedef, self.paths, self.leaves = treedef, paths, leaves

    def flatten(self) -> tuple[list[tuple[Any, Any]], Any]:
        """Return (path, leaf) of each leaf, and the rest."""
        pairs = zip(map(PathText, self.paths), self.leaves, strict=True)
        return list(pairs), (self.treedef, self.paths)


jax.tree_util.register_pytree_with_keys(
    Deferred, Deferred.flatten, lambda data, leaves: Deferred(data[0], data[1], tuple(leaves))
)


def hold(treedef: Any, leaves: Sequence[Any], paths: Sequence[Path] | None = None) -> Any:
    """Return the tree, with a `Deferred` for each part whose type refuses or changes its leaves.

    `paths` are those of the leaves, if they are known.
    """
    # jax itself puts objects of its own there, which a type may take for static data.
    if _keeps(treedef, [_Anything() for _ in leaves]) and _keeps(treedef, leaves):
        return jax.tree.unflatten(treedef, leaves)
    names = tuple(paths or (f"[{index}]" for index in range(len(leaves))))
    kind, data = treedef.node_data()
    if kind not in (tuple, list, dict):
        return Deferred(treedef, names, tuple(leaves))
    children, start = [], 0
    keys = data if kind is dict else range(len(treedef.children()))
    for key, child in zip(keys, treedef.children(), strict=True):
        end = start + child.num_leaves
        below = [name.removeprefix(f"[{key!r}]") for name in names[start:end]]
        children.append(hold(child, leaves[start:end], below))
        start = end
    return dict(zip(data, children, strict=True)) if kind is dict else kind(children)


class _Anything:
    """A leaf that is no array."""


def _keeps(treedef: Any, leaves: Sequence[Any]) -> bool:
    """Return whether the types in a tree take these leaves and give them back as they are."""
    try:
        found, structure = jax.tree.flatten(jax.tree.unflatten(treedef, leaves))
    except Exception:  # noqa: BLE001 (the user's type may raise anything)
        return False
    same_leaves = len(found) == len(leaves) and all(map(operator.is_, found, leaves))
    return same_leaves and same_structure(structure, treedef)


def same_structure(one: Any, other: Any) -> bool:
    """Return whether two treedefs are equal, also where comparing static data raises."""
    try:
        return bool(one == other)
    except Exception:  # noqa: BLE001 (such as numpy's, about the truth of an array)
        return _same_description(one, other)


def _same_description(one: Any, other: Any) -> bool:
    try:
        return bool(describe(one) == describe(other))
    except TreeRefused:
        return False


def structure_of(tree: Any) -> Any:
    """Return the treedef of a tree, with that of each `Deferred` in its place."""
    return _expanded(jax.tree.structure(tree))


def of_arrays(function: Callable[..., Any], *trees: Any) -> Callable[..., Any]:
    """Return a function that makes the trees it is given with `Deferred`s; itself without any.

    `trees` are examples of its arguments.
    """
    structure = jax.tree.structure(trees)
    if _expanded(structure) is structure:
        return function

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*_made(args), **_made(kwargs))

    return call


def result_tree(traced: Any) -> Any:
    """Return the result of a `jax.stages.Traced`, with a `ShapeDtypeStruct` for each array."""
    leaves = [
        jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)
        for aval in traced.jaxpr.out_avals
    ]
    return hold(traced.out_tree, leaves)


def _made(value: Any) -> Any:
    """Return a tree in which each `Deferred` is what it stands for.

    It may be in containers that a manifest can write, and in no other node.
    """
    if isinstance(value, Deferred):
        return jax.tree.unflatten(value.treedef, value.leaves)
    if type(value) in (list, tuple):
        return type(value)(map(_made, value))
    if type(value) is dict:
        return {key: _made(item) for key, item in value.items()}
    return value


def _expanded(treedef: Any) -> Any:
    data = treedef.node_data()
    if data is None:
        return treedef
    if data[0] is Deferred:
        return data[1][0]
    children = treedef.children()
    expanded = [_expanded(child) for child in children]
    if all(old is new for old, new in zip(children, expanded, strict=True)):
        return treedef
    return jax_private.make_treedef(data, expanded)
