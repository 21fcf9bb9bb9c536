"""Feedback: a result that is passed back as an argument, where its avals are not the argument's.

jit traces such a call a second time; with `feedback:` another job compiles it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax

from aotbuild.build.jobs import Fed, FedLeaf, Job
from aotbuild.errors import TraceRefused
from aotbuild.format.aval import Aval
from aotbuild.format.dtypes import DTYPES
from aotbuild.worker import private as jax_private
from aotbuild.worker.leaves import same_structure
from aotbuild.worker.user_errors import shorten

# How often avals may change. Those that settle do so at once, or when all of a state was written.
ROUNDS = 3
_RESULT = "the result"
_STANDARD = (tuple, list, dict)

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
    result = _as_returned(job, result)
    parts, found = dict(_parts(result)), {}
    for name in job.function.feedback:
        part = _part_for(declared[name], parts)
        if part is None:
            raise TraceRefused(_no_part(job, name, declared[name], result))
        found[name] = parts.pop(part)
    _check_shapes(job, declared, found)
    fed, own = ({n: _fed(declared[n], t[n]) for n in found} for t in (found, declared))
    if fed in (own, *job.fed):
        return None
    if len(job.fed) == ROUNDS:
        raise TraceRefused(_unstable(job, declared, fed))
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
    parts, places = dict(_parts(result)), dict[int, int]()
    for name in dict.fromkeys((*job.function.feedback, *arguments)):
        part = result.get(name) if is_written else None
        if part is not None and not _is_alike(arguments[name], part):
            continue  # what has another tree then is that of another signature
        if part is None and name in job.function.feedback:
            found = _part_for(arguments[name], parts)
            part = parts.pop(found) if found is not None else None
        if part is not None:
            pairs = zip(jax.tree.leaves(part), inputs[name], strict=True)
            places |= {indices[id(leaf)]: place for leaf, place in pairs if id(leaf) in indices}
    return places


def _as_returned(job: Job, result: Any) -> Any:
    """Return a result as calls have it: without weak types, if they will be of numpy."""
    if not job.numpy_only:
        return result
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), result)


def _parts(result: Any) -> Iterator[tuple[str, Any]]:
    """Yield the name and tree of what can be passed back: the result, or an element of it."""
    yield _RESULT, result
    if isinstance(result, _STANDARD):
        inner = jax.tree_util.tree_flatten_with_path(result, is_leaf=lambda x: x is not result)[0]
        for path, child in inner:
            yield f"result{jax.tree_util.keystr(path)}", child


def _part_for(tree: Any, parts: Mapping[str, Any]) -> str | None:
    """Return the first part with the structure of a tree; one of equal shapes goes first."""
    fitting = [name for name, part in parts.items() if _is_alike(tree, part)]
    shapes = _shapes(tree)
    return min(fitting, key=lambda name: _shapes(parts[name]) != shapes, default=None)


def _is_alike(one: Any, other: Any) -> bool:
    """Return whether two trees are equal but for the avals of their leaves."""
    return same_structure(jax.tree.structure(one), jax.tree.structure(other))


def _fed(declared: Any, part: Any) -> tuple[FedLeaf, ...]:
    pairs = zip(jax.tree.leaves(declared), jax.tree.leaves(part), strict=True)
    return tuple(_fed_leaf(before, after) for before, after in pairs)


def _fed_leaf(before: Any, after: Any) -> FedLeaf:
    shape = None if tuple(before.shape) == tuple(after.shape) else tuple(map(int, after.shape))
    return FedLeaf(dtype=str(after.dtype), weak_type=bool(after.weak_type), shape=shape)


def _changed(tree: Any, fed: tuple[FedLeaf, ...]) -> Any:
    leaves, treedef = jax.tree.flatten(tree)
    return treedef.unflatten(map(_struct, leaves, fed))


def _struct(leaf: Any, fed: FedLeaf) -> Any:
    shape = leaf.shape if fed.shape is None else fed.shape
    dtype = jax_private.dtype_of(fed.dtype)
    return jax.ShapeDtypeStruct(shape, dtype, weak_type=fed.weak_type)


def _check_shapes(job: Job, declared: Arguments, found: Arguments) -> None:
    """Refuse other shapes where dims have several sizes: they would be those of one size."""
    option = "export: dims" if job.symbolic else "pad" if job.function.pad else ""
    for name, part in found.items():
        if option and _shapes(part) != _shapes(declared[name]):
            msg = (
                f"functions.{job.name}.feedback: what is passed back as `{name}` has other shapes: "
                f"{_difference(name, declared[name], part)}\n"
                f"That works without {option} only; leave one of the two out."
            )
            raise TraceRefused(msg)


def _no_part(job: Job, name: str, tree: Any, result: Any) -> str:
    wanted, found = (shorten(str(jax.tree.structure(each))) for each in (tree, result))
    return (
        f"functions.{job.name}.feedback: no part of the result has the tree of `{name}`\n"
        f"  expected {wanted}\n  found    {found}\n"
        "Return the argument's type, with equal static data, as the result or as an element of a "
        "tuple, list or dict; or leave it out of feedback."
    )


def _unstable(job: Job, declared: Arguments, fed: Fed) -> str:
    name = next(name for name in fed if fed[name] != job.fed[-1][name])
    before, after = (_changed(declared[name], each[name]) for each in (job.fed[-1], fed))
    return (
        f"functions.{job.name}.feedback: the avals of `{name}` change with each of {ROUNDS + 1} "
        f"calls: {_difference(name, before, after)}\n"
        "Return it with the shape and dtype that it has, or leave it out of feedback."
    )


def _difference(name: str, before: Any, after: Any) -> str:
    """Return the first leaf whose aval changes, and both avals."""
    leaves = jax.tree_util.tree_flatten_with_path(before)[0]
    for (path, old), new in zip(leaves, jax.tree.leaves(after), strict=True):
        if (one := _text(old)) != (other := _text(new)):
            return f"{name}{jax.tree_util.keystr(path)} is {one}, then {other}"
    return "nothing"


def _text(leaf: Any) -> str:
    if str(leaf.dtype) in DTYPES:
        return str(Aval(tuple(leaf.shape), str(leaf.dtype), bool(leaf.weak_type)))
    return f"{leaf.dtype}[{','.join(map(str, leaf.shape))}]"


def _shapes(tree: Any) -> list[tuple[Any, ...]]:
    return [tuple(leaf.shape) for leaf in jax.tree.leaves(tree)]
