"""Pytrees as data: the description of a treedef, which two processes can compare.

A description is JSON:

=====================================  =========================================================
`"*"`                                  a leaf
`["none"]`                             None, a tree without leaves
`["tuple", child…]`, `["list", …]`     the containers themselves
`["dict", [key…], child…]`             keys as `values.encode`, in JAX's (sorted) order
`["namedtuple", "module:name", …]`     a subclass of tuple with `_fields`
`["node", "module:name", aux, …]`      any other registered type and its auxiliary data
`["input", [index…]]`                  outputs only: equal to that subtree of `(args, kwargs)`
=====================================  =========================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from aotbuild.spec.values import NotEncodable, encode, is_plain, qualified_name

Tree = Any
LEAF = "*"
# The number of items before the children, by the kind of a node.
HEADS = {"none": 1, "tuple": 1, "list": 1, "dict": 2, "namedtuple": 2, "node": 3}
DEEPEST = 200


class TreeDef(Protocol):
    """The interface of `jax.tree_util.PyTreeDef` that is used."""

    def node_data(self) -> tuple[type, Any] | None: ...
    def children(self) -> list[Any]: ...


class TreeRefused(ValueError):
    """A node of a pytree has no description; `path` holds the child indices that lead to it."""

    def __init__(self, path: tuple[int, ...], node: str, reason: str) -> None:
        self.path, self.node, self.reason = path, node, reason
        super().__init__(f"{node} at {list(path)}: {reason}")


def describe(treedef: TreeDef, path: tuple[int, ...] = ()) -> Tree:
    """Return the description of a treedef; raises TreeRefused if auxiliary data has no encoding."""
    data = treedef.node_data()
    if data is None:
        return LEAF if _is_leaf(treedef) else ["none"]
    kind, aux = data
    _check_depth(kind, path)
    try:
        head = _head(kind, aux)
    except (NotEncodable, RecursionError) as err:
        raise TreeRefused(path, _name_of(kind), str(err)) from err
    children = enumerate(treedef.children())
    return head + [describe(child, (*path, index)) for index, child in children]


def describe_output(treedef: TreeDef, inputs: TreeDef) -> Tree:
    """Return the description of an output tree that `restore` can rebuild.

    A subtree of unregistered or opaque type must equal a subtree of the inputs `(args, kwargs)`;
    otherwise raises TreeRefused with its type and path.
    """
    known = {str(sub): path for path, sub in reversed(list(_subtrees(inputs))) if sub.children()}
    return _describe_output(treedef, inputs, known, ())


def subtree(treedef: TreeDef, path: list[int]) -> Any:
    """Return the subtree that child indices lead to."""
    for index in path:
        treedef = treedef.children()[index]
    return treedef


def leaf_count(tree: Tree) -> int:
    """Return the number of leaves of a description without `input` references."""
    if tree == LEAF:
        return 1
    return sum(leaf_count(child) for child in children_of(tree))


def children_of(tree: Tree) -> list[Tree]:
    """Return the children of a described node; leaves and references to inputs have none."""
    if tree == LEAF or tree[0] == "input":
        return []
    return list(tree[HEADS[tree[0]] :])


def _describe_output(
    treedef: TreeDef, inputs: TreeDef, known: dict[str, tuple[int, ...]], path: tuple[int, ...]
) -> Tree:
    data = treedef.node_data()
    if data is None:
        return LEAF if _is_leaf(treedef) else ["none"]
    kind, aux = data
    match = known.get(str(treedef))
    is_standard = kind in (tuple, list, dict, type(None))
    if not is_standard and match is not None and subtree(inputs, list(match)) == treedef:
        return ["input", list(match)]
    _check_depth(kind, path)
    head = _output_head(kind, aux, path)
    children = enumerate(treedef.children())
    return head + [
        _describe_output(child, inputs, known, (*path, index)) for index, child in children
    ]


def _check_depth(kind: type, path: tuple[int, ...]) -> None:
    """Refuse trees that are too deep for the reader of an index."""
    if len(path) > DEEPEST:
        raise TreeRefused(path, _name_of(kind), f"it is nested deeper than {DEEPEST} levels")


def _output_head(kind: type, aux: Any, path: tuple[int, ...]) -> list[Any]:
    try:
        head = _head(kind, aux)
    except (NotEncodable, RecursionError) as err:
        raise TreeRefused(path, _name_of(kind), str(err)) from err
    if head[0] == "node" and not is_plain(head[2]):
        reason = "its auxiliary data is not plain JSON, and no input has the same tree"
        raise TreeRefused(path, _name_of(kind), reason)
    return head


def _head(kind: type, aux: Any) -> list[Any]:
    if kind is type(None):
        return ["none"]
    if kind in (tuple, list):
        return [kind.__name__]
    if kind is dict:
        return ["dict", [encode(key) for key in aux]]
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return ["namedtuple", qualified_name(kind)]
    return ["node", qualified_name(kind), encode(aux)]


def _is_leaf(treedef: Any) -> bool:
    return bool(treedef.num_leaves == 1)


def _name_of(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _subtrees(treedef: TreeDef, path: tuple[int, ...] = ()) -> Iterator[tuple[Any, Any]]:
    yield path, treedef
    for index, child in enumerate(treedef.children()):
        yield from _subtrees(child, (*path, index))
