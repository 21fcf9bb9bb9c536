"""What an argument of a call is: the description of its tree, and the avals of its leaves."""

from __future__ import annotations

from typing import Any

import jax

from aotbuild.format.aval import Aval, NotAnArray
from aotbuild.format.tree import Tree, TreeRefused, describe
from aotbuild.format.wrap import Wrap, mark
from aotbuild.record.main_module import main_name, renamed
from aotbuild.runtime.jax.private import aval_of

_LIKE = "name a function that makes it with like:"


def describe_argument(
    value: Any, wrap: Wrap | None = None
) -> tuple[Tree | None, tuple[Aval, ...], str]:
    """Return the description of an argument's tree, the avals of its leaves, and a problem.

    The tree is as `format.tree` describes it. It is None where it has no
    description. The problem says why no manifest can have it, and what to do; it is empty if one
    can. `wrap` is that of the function, which says what in the argument is static.
    """
    value = mark(wrap, (value,))[0] if wrap else value
    try:
        leaves, treedef = jax.tree_util.tree_flatten(value)
    except ValueError as err:
        return None, (), f"it is no pytree: {err}; use dict keys of one type that can be sorted"
    try:
        avals = tuple(map(aval_of, leaves))
    except NotAnArray as err:
        return None, (), f"a leaf is {err}; jax.jit takes it as a static argument only"
    try:
        tree = describe(treedef)
    except TreeRefused as err:
        return None, avals, f"{_place(value, err.path)}: a {err.node}: {err.reason}; {_LIKE}"
    return renamed(tree) if main_name() else tree, avals, ""


def _place(value: Any, path: tuple[int, ...]) -> str:
    """Return where child indices lead to in an argument, as `.opt_state[0]`."""
    text = ""
    for index in path:
        children = _children(value)
        if index >= len(children):
            break
        entries, value = children[index]
        text += jax.tree_util.keystr(entries)
    return text or "the argument itself"


def _children(value: Any) -> list[tuple[Any, Any]]:
    """Return the children of a node, with their key paths."""
    found: list[tuple[Any, Any]]
    found, _ = jax.tree_util.tree_flatten_with_path(value, is_leaf=lambda x: x is not value)
    return found
