"""The trees around arguments and results as descriptions, refused with the path of the node."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax

from aotbuild.build.jobs import Job
from aotbuild.errors import TraceRefused
from aotbuild.spec.tree import Tree, TreeRefused, describe, describe_output


def describe_arguments(job: Job, tree: Any, names: tuple[str, ...]) -> Tree:
    """Return the description of `(args, kwargs)`; `names` are those of the arguments, in order."""
    try:
        return describe(jax.tree.structure(tree))
    except TreeRefused as err:
        name, *below = named_path(key_path(tree, err.path), names)
        msg = (
            f"{job.call}: argument {name}{_shown(below)} is a {err.node}, whose static data means "
            f"nothing in another process: {err.reason}\n"
            "Pass the arrays only (equinox: eqx.filter or partition; flax: the state), and close "
            "over the rest."
        )
        raise TraceRefused(msg) from err


def describe_result(job: Job, out_info: Any, inputs: Any) -> Tree:
    """Return the description of a result; parts of it may refer to the inputs, `(args, kwargs)`."""
    try:
        return describe_output(jax.tree.structure(out_info), jax.tree.structure(inputs))
    except TreeRefused as err:
        path = _shown(key_path(out_info, err.path))
        msg = (
            f"{job.call} returns a {err.node} at result{path}: {err.reason}\n"
            "Return standard containers, namedtuples, registered dataclasses with plain static "
            "fields, or a tree that equals that of an argument."
        )
        raise TraceRefused(msg) from err


def key_path(tree: Any, indices: tuple[int, ...]) -> tuple[Any, ...]:
    """Return the key path of the node that child indices lead to."""
    if not indices:
        return ()
    children = jax.tree_util.tree_flatten_with_path(tree, is_leaf=lambda x: x is not tree)[0]
    (entry,), child = children[indices[0]]
    return (entry, *key_path(child, indices[1:]))


def named_path(path: tuple[Any, ...], names: tuple[str, ...]) -> tuple[Any, ...]:
    """Return a path in `(args, kwargs)` with the argument's name for its two leading entries."""
    kind, entry, *rest = path
    name = names[entry.idx] if kind.idx == 0 else entry.key
    return (name, *rest)


def _shown(path: Iterable[Any]) -> str:
    return str(jax.tree_util.keystr(tuple(path)))
