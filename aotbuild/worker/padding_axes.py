"""Find the axes that have the size of a dim, by tracing the function at another size of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import jax

from aotbuild.build.jobs import Job
from aotbuild.errors import TraceRefused
from aotbuild.format.padding import Axes, PaddedDim, Padding
from aotbuild.manifest.signatures import value_problem
from aotbuild.worker.jitted import Jitted
from aotbuild.worker.leaves import is_key_dtype, named_path, result_tree
from aotbuild.worker.trace import Traced, jit_like
from aotbuild.worker.user_errors import user_traceback

Shapes = list[tuple[int, ...]]
Paths = Sequence[str]

_LEAVE_OUT = "Leave the dim out of pad."


def with_padding(traced: Traced) -> Traced:
    """Return a trace whose function says how calls are padded; TraceRefused if that cannot be."""
    if not traced.job.function.pad:
        return traced
    return replace(traced, function=replace(traced.function, pad=_find(traced)))


def smaller_size(job: Job, index: int, size: int, step: int) -> int | None:
    """Return the smallest size of a dim that is padded to `size`, a multiple of `step`, if any.

    That is one more than the next smaller bucket. If there is no size between the two buckets, it
    is a size of another bucket, which could be padded just as well.
    """
    below = [bucket[index] for bucket in job.buckets if bucket[index] < size]
    wanted = max(below, default=0) + 1
    for candidate in (-(-wanted // step) * step, (size - 1) // step * step):
        if 0 < candidate < size:
            return candidate
    return None


def granularity(traced: Traced) -> int:
    """Return what sizes must be multiples of, so that any axes of the mesh can split them."""
    return int(traced.mesh.size) if traced.mesh else 1


def _find(traced: Traced) -> Padding:
    job = traced.job
    here = jit_like(traced, job.at())
    names = [str(name) for name in here.names]
    flat = jax.tree_util.tree_flatten_with_path(here.canonical)[0]
    leaf_paths = [_path(named_path(path, tuple(names))) for path, _ in flat]
    outputs = jax.tree_util.tree_flatten_with_path(result_tree(here.trace(), job.call))[0]
    out_paths = [f"result{jax.tree_util.keystr(path)}" for path, _ in outputs]
    leaf_dims: list[list[tuple[int, int]]] = [[] for _ in flat]
    out_dims: list[list[tuple[int, int]]] = [[] for _ in outputs]
    padded = job.function.padded_dims
    for index, dim in enumerate(padded):
        where = f"functions.{job.name}.pad.{dim.name}"
        size = job.dims[dim.name]
        other, there = _at_another_size(traced, dim, index)
        inputs, results = (_shapes(here), _shapes(there)), (_out_shapes(here), _out_shapes(there))
        for group, found, paths in (
            (leaf_dims, inputs, leaf_paths),
            (out_dims, results, out_paths),
        ):
            for number, axes in enumerate(_axes_of_dim(where, paths, found, (size, other))):
                group[number] += [(axis, index) for axis in axes]
        _check_leaves(where, dim, index, leaf_dims, leaf_paths, [leaf for _, leaf in flat])
        _check_outputs(where, dim, index, out_dims, out_paths, [leaf for _, leaf in outputs])
    return Padding(padded, job.buckets, _sorted(leaf_dims), _sorted(out_dims))


def _at_another_size(traced: Traced, dim: PaddedDim, index: int) -> tuple[int, Jitted]:
    """Return another size of a dim, and the function at that size.

    That is the one that its padding is compared with, if there is one; else TraceRefused with the
    error of the first that was tried if all fail.
    """
    job, step = traced.job, granularity(traced)
    size = job.dims[dim.name]
    smaller = smaller_size(job, index, size, step)
    others = [smaller] if smaller else []
    if not others:
        others += [bucket[index] for bucket in job.buckets if bucket[index] != size]
        others += [size + step, 2 * size + step]
    error: Exception | None = None
    for other in others:
        try:
            jitted = jit_like(traced, job.at(**{dim.name: other}))
            jitted.trace()
        except BaseException as err:  # noqa: BLE001 (user code may raise anything)
            error = error or (err if isinstance(err, Exception) else TraceRefused(str(err)))
            continue
        return other, jitted
    assert error is not None, "at least one size was tried"
    text = str(error) if isinstance(error, TraceRefused) else user_traceback(error)
    msg = (
        f"functions.{job.name}.pad.{dim.name}: padding was to be tried at "
        f"{dim.name}={others[0]}, where the function cannot be traced\n{text}\n"
        f"Let it take every size up to the largest, or pad before the call."
    )
    raise TraceRefused(msg) from error


def _shapes(jitted: Jitted) -> Shapes:
    return [tuple(map(int, leaf.shape)) for leaf in jax.tree.leaves(jitted.canonical)]


def _out_shapes(jitted: Jitted) -> Shapes:
    return [tuple(map(int, aval.shape)) for aval in jitted.trace().jaxpr.out_avals]


def _axes_of_dim(
    where: str, paths: Paths, shapes: tuple[Shapes, Shapes], sizes: tuple[int, int]
) -> Iterator[list[int]]:
    """Yield the axes of each array that change with a dim; TraceRefused if one has another size."""
    (here, there), (size, other) = shapes, sizes
    if len(here) != len(there):
        found = f"{len(here)} arrays at {size}, {len(there)} at {other}"
        msg = f"{where}: the tree depends on the size: {found}\n{_LEAVE_OUT}"
        raise TraceRefused(msg)
    for path, shape, changed in zip(paths, here, there, strict=True):
        axes = [i for i, pair in enumerate(zip(shape, changed, strict=False)) if pair[0] != pair[1]]
        is_plain = all((shape[i], changed[i]) == (size, other) for i in axes)
        if len(shape) != len(changed) or not is_plain:
            msg = (
                f"{where}: {path} follows the dim in another way than by its size\n"
                f"  expected axes of {size} that become {other} when the dim does\n"
                f"  found    {list(shape)} at {size}, {list(changed)} at {other}\n{_LEAVE_OUT}"
            )
            raise TraceRefused(msg)
        yield axes


def _check_leaves(
    where: str,
    dim: PaddedDim,
    index: int,
    dims: Sequence[Iterable[tuple[int, int]]],
    paths: Paths,
    leaves: Sequence[Any],
) -> None:
    padded = [number for number, own in enumerate(dims) if index in [d for _, d in own]]
    if not padded:
        msg = f"{where}: no argument has an axis of this dim\n{_LEAVE_OUT}"
        raise TraceRefused(msg)
    for number in padded:
        problem = value_problem(dim.value, str(leaves[number].dtype))
        if problem:
            msg = f"{where}: {paths[number]} is {leaves[number].dtype}: {problem}"
            raise TraceRefused(msg)


def _check_outputs(
    where: str,
    dim: PaddedDim,
    index: int,
    dims: Sequence[Iterable[tuple[int, int]]],
    paths: Paths,
    outputs: Sequence[Any],
) -> None:
    for path, own, output in zip(paths, dims, outputs, strict=True):
        has_dim = index in [d for _, d in own]
        if has_dim and is_key_dtype(output.dtype):
            msg = f"{where}: {path} holds typed PRNG keys, which cannot be cut\n{_LEAVE_OUT}"
            raise TraceRefused(msg)
        if not has_dim:
            msg = (
                f"{where}: {path} has no axis of this dim\n"
                f"  expected an axis of {dim.name} in every result, where padding is cut off\n"
                f"  found    {output.dtype}{list(output.shape)}\n"
                "Leave the dim out of pad. If padding does not change it, as a sum is not changed "
                "by zeros, pad before the call."
            )
            raise TraceRefused(msg)


def _path(path: tuple[Any, ...]) -> str:
    return f"{path[0]}{jax.tree_util.keystr(tuple(path[1:]))}"


def _sorted(dims: Iterable[Iterable[tuple[int, int]]]) -> Axes:
    return tuple(tuple(sorted(own)) for own in dims)
