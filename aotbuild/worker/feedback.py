"""Feedback: a result that is passed back as an argument, where its dtypes are not the argument's.

jit traces such a call a second time; with `feedback:` another job compiles it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax

from aotbuild.build.jobs import Fed, FedLeaf, Job
from aotbuild.errors import TraceRefused
from aotbuild.worker import private as jax_private
from aotbuild.worker.leaves import same_structure
from aotbuild.worker.user_errors import shorten

# How often avals may change. Those that settle do so at once, or when all of a state was written.
ROUNDS = 3

# Trees of `jax.ShapeDtypeStruct` by the name of the argument.
Arguments = Mapping[str, Any]


def with_feedback(job: Job, declared: Arguments) -> dict[str, Any]:
    """Return the arguments of a job's call: as the manifest declares them, or passed back."""
    fed = job.fed[-1] if job.fed else {}
    return {n: _changed(tree, fed[n]) if n in fed else tree for n, tree in declared.items()}


def passed_back(job: Job, declared: Arguments, result: Any) -> Fed | None:
    """Return the avals of the next call's arguments; None if a call before had them.

    `result` is a tree of `jax.ShapeDtypeStruct`. TraceRefused if it has no part that fits, or if
    its avals change with each call.
    """
    if job.numpy_only:  # calls return arrays of numpy, which have no weak types
        result = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), result)
    found = _found_parts(job, declared, result)
    fed, own = ({n: _fed(t[n]) for n in found} for t in (found, declared))
    if fed in (own, *job.fed):
        return None
    if len(job.fed) == ROUNDS:
        names = ", ".join(name for name in fed if fed[name] != job.fed[-1][name])
        msg = (
            f"functions.{job.name}.feedback: the avals of `{names}` change with each of "
            f"{ROUNDS + 1} calls\nReturn it with the dtype that it has, or leave it out of "
            "feedback."
        )
        raise TraceRefused(msg)
    return fed


def places_again(
    job: Job,
    arguments: Arguments,
    inputs: Mapping[str, Sequence[int]],
    outputs: Sequence[Any],
    result: Any,
    *,
    is_written: bool,
) -> dict[int, int]:
    """Return for each output that is an argument of the next call the index of its input.

    That is what `feedback:` names, and what `nnx.jit` writes. `inputs` are the indices of the
    arguments' leaves; `outputs` are the leaves of the result. `is_written`: the result has
    arguments by their names, which `nnx.jit` changed.
    """
    indices = {id(leaf): index for index, leaf in enumerate(outputs)}
    written = {n: result[n] for n in arguments if n in result} if is_written else {}
    # What has another tree then is that of another signature.
    parts = {n: part for n, part in written.items() if _is_alike(arguments[n], part)}
    named = [name for name in job.function.feedback if name in arguments and name not in written]
    parts |= _found_parts(job, arguments, result, named)
    return {
        indices[id(leaf)]: place
        for name, part in parts.items()
        for leaf, place in zip(jax.tree.leaves(part), inputs[name], strict=True)
        if id(leaf) in indices
    }


def _found_parts(
    job: Job, arguments: Arguments, result: Any, names: Sequence[str] | None = None
) -> dict[str, Any]:
    """Return the part of a result that each name under `feedback:` gets; TraceRefused if none."""
    parts, found = list(_parts(result)), {}
    for name in job.function.feedback if names is None else names:
        tree = arguments[name]
        fitting = (i for i, part in enumerate(parts) if _is_alike(tree, part))
        place = next((i for i in fitting if _shapes(parts[i]) == _shapes(tree)), None)
        if place is None:
            msg = (
                f"functions.{job.name}.feedback: no part of the result has the tree and shapes of "
                f"`{name}`\n  expected {shorten(str(tree))}\n  found    {shorten(str(result))}\n"
                "Return the argument's type, with equal static data, as the result or as an "
                "element of a tuple, list or dict; or leave it out of feedback."
            )
            raise TraceRefused(msg)
        found[name] = parts.pop(place)
    return found


def _parts(result: Any) -> Iterator[Any]:
    """Yield what can be passed back: the result, or an element of it."""
    yield result
    if isinstance(result, tuple | list | dict):
        yield from jax.tree.leaves(result, is_leaf=lambda x: x is not result)


def _is_alike(one: Any, other: Any) -> bool:
    """Return whether two trees are equal but for the avals of their leaves."""
    return same_structure(jax.tree.structure(one), jax.tree.structure(other))


def _shapes(tree: Any) -> list[tuple[Any, ...]]:
    return [tuple(leaf.shape) for leaf in jax.tree.leaves(tree)]


def _fed(tree: Any) -> tuple[FedLeaf, ...]:
    leaves = jax.tree.leaves(tree)
    return tuple(FedLeaf(dtype=str(x.dtype), weak_type=bool(x.weak_type)) for x in leaves)


def _changed(tree: Any, fed: tuple[FedLeaf, ...]) -> Any:
    leaves, treedef = jax.tree.flatten(tree)
    return treedef.unflatten(
        jax.ShapeDtypeStruct(leaf.shape, jax_private.dtype_of(new.dtype), weak_type=new.weak_type)
        for leaf, new in zip(leaves, fed, strict=True)
    )
