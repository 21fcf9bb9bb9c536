"""Output trees: a description from which another process can rebuild the tree.

A node is rebuilt from its type and its static data where that can be decoded. Other static data
comes from where the same data is in both processes: from the inputs of the call.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aotbuild.format.canonical import canonical_json
from aotbuild.format.identity import opaque_part
from aotbuild.format.tree import (
    HEADS,
    LEAF,
    Describer,
    Tree,
    TreeDef,
    TreeRefused,
    children_of,
    type_words,
)

# A reference without children stands for a whole subtree.
_Places = dict[bytes, list[Any]]
# Nodes that another tree may give, and which item is their static data.
_WITH_DATA = ("namedtuple", "node", "static")
_WORDS = {"static": "static leaf", "dict": "dict"}
_DATA = {"node": 2, "static": 1, "dict": 1}


def describe_output(treedef: TreeDef, inputs: TreeDef) -> Tree:
    """Return the description of an output tree that `restore` can rebuild.

    TreeRefused has the type and path of a node that has data from nowhere.
    """
    # Compared in this process only, so that data that is ignored can be passed on, too.
    describe = Describer(local=True).describe
    given = list(_nodes(describe(inputs)))
    trees: _Places = {}
    heads: _Places = {}
    for path, tree in given:
        trees.setdefault(canonical_json(tree), ["input", path])
        heads.setdefault(_head(tree), ["like_input", path])
    return _refer(describe(treedef), trees, heads, (), ())


def _refer(
    tree: Tree, trees: _Places, heads: _Places, path: tuple[int, ...], around: tuple[str, ...]
) -> Tree:
    """Return the description of a subtree; `around` has the types of the nodes that it is in."""
    if tree == LEAF:
        return tree
    children = children_of(tree)
    data = tree[_DATA[tree[0]]] if tree[0] in _DATA else None
    named = tree[0] in ("node", "namedtuple")
    importable = not named or isinstance(tree[1], str)
    nodes = (*around, tree[1]) if named and importable else around
    opaque = opaque_part(data, *nodes) if importable else ""
    is_plain = opaque is None
    same = trees.get(canonical_json(tree)) if tree[0] in _WITH_DATA else None
    if same and (children or not is_plain):
        return same
    head = tree[: HEADS[tree[0]]] if is_plain else heads.get(_head(tree))
    if head is None:
        what = f"its static data holds {opaque}"
        reason = what if importable else "no name leads to this type, which a function made"
        name = type_words(tree[1]) if named else _WORDS[tree[0]]
        raise TreeRefused(path, name, f"{reason}, and no argument has the same")
    below = enumerate(children)
    return [*head, *(_refer(child, trees, heads, (*path, i), nodes) for i, child in below)]


def _head(tree: Tree) -> bytes:
    """Return the type and static data of a node, as a key."""
    return canonical_json(tree[: HEADS[tree[0]]])


def _nodes(tree: Tree, path: tuple[int, ...] = ()) -> Iterator[tuple[list[int], Tree]]:
    """Yield the places of nodes with data: no standard containers but dicts with other keys."""
    if tree[0] in _WITH_DATA or (tree[0] == "dict" and not all(type(k) is str for k in tree[1])):
        yield list(path), tree
    for index, child in enumerate(children_of(tree)):
        yield from _nodes(child, (*path, index))
