"""Names of the leaves of a call and of its result, as `params['layers'][0]`, from trees alone.

The fields of a registered type are not in its description, so its children have numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aotbuild.format.tree import LEAF, REFERENCES, Tree, children_of
from aotbuild.format.values import shown
from aotbuild.format.wrap import NNX_JIT

_RESULT, _UPDATES = "result", "updates"


def argument_names(dynamic: Sequence[str], tree: Tree) -> list[str]:
    """Return the name of each leaf of `(args, kwargs)`."""
    args, kwargs = children_of(tree)
    keys = kwargs[1] if kwargs[0] == "dict" else ()
    named = [*zip(dynamic, children_of(args), strict=False)]
    named += zip(keys, children_of(kwargs), strict=False)
    return [name for start, child in named for name in _names(child, str(start))]


def result_names(tree: Tree, inputs: Tree, wrap: str = "") -> list[str]:
    """Return the name of each leaf of a result; `inputs` describes `(args, kwargs)`.

    Under `nnx.jit`, the executable also returns what a call writes into the caller's objects.
    """
    whole = _with_inputs(tree, inputs)
    if wrap != NNX_JIT:
        return list(_names(whole, _RESULT))
    named = zip((_RESULT, *[_UPDATES] * len(whole)), children_of(whole), strict=False)
    return [name for start, child in named for name in _names(child, start)]


def _with_inputs(tree: Tree, inputs: Tree) -> Tree:
    """Return the description of a result where no node refers to the inputs."""
    if tree == LEAF:
        return tree
    found = tree
    if tree[0] in REFERENCES:
        found = inputs
        for index in tree[1]:
            found = children_of(found)[index]
        if tree[0] == "input":
            return found
    head = found[: len(found) - len(children_of(found))]
    return [*head, *(_with_inputs(child, inputs) for child in children_of(tree))]


def _names(tree: Tree, name: str) -> Iterator[str]:
    if tree == LEAF:
        yield name
        return
    for index, child in enumerate(children_of(tree)):
        step = shown(tree[1][index]) if tree[0] == "dict" else index
        yield from _names(child, f"{name}[{step}]")
