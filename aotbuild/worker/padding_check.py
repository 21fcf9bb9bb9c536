"""Check that padding changes no result: call the function at a smaller size, and padded from it.

Dims that the manifest calls safe are not checked:
they keep their size here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from aotbuild.build.protocol import Failed, Reply, Started
from aotbuild.errors import TraceRefused
from aotbuild.format.canonical import sha256_hex
from aotbuild.format.golden import Tolerance, default_tolerance, near, widened
from aotbuild.format.padding import Padding, resized
from aotbuild.format.target import HOST
from aotbuild.platforms.base import machine
from aotbuild.store.entry import Entry
from aotbuild.store.folder import Store
from aotbuild.store.keys import padding_key
from aotbuild.worker.imports import unchanged_config
from aotbuild.worker.leaves import result_tree, to_aval
from aotbuild.worker.padding_axes import granularity, smaller_size
from aotbuild.worker.reference import Reference, as_argument, float_dtypes, given_leaves, lower_job
from aotbuild.worker.trace import Traced
from aotbuild.worker.user_errors import user_traceback

_NOTHING_FINITE = (
    "is finite nowhere, so nothing can be compared; the arguments were seeded, or those of "
    "verify: inputs:"
)
_VARIES = (
    "The function mixes along this dim, as a mean over it does, or its size is in the numbers."
)
_REMEDY = (
    "Leave the dim out of pad. If padding reaches no result when the function is called as you do, "
    "with a mask for one, give arguments like yours with verify: inputs:, or vouch for it with "
    "pad: {{{name}: {{value: …, safe: true}}}}."
)
# Beside larger values than this, seeded numbers vanish.
_LARGE = 100


@dataclass(frozen=True)
class PaddingCheck:
    """Compares results, unless the store says that an equal comparison passed."""

    store: Store
    provenance: Mapping[str, Any]

    def messages(self, traced: Traced) -> Iterator[Reply]:
        """Yield the messages of one job's padding; none if no call of it is padded."""
        sizes = _smaller(traced)
        if not sizes or all(target.is_portable for target in traced.job.targets):
            return
        yield Started(stage="pad")
        for each in _with_two(traced, sizes):
            problem = self._check(traced, each)
            if problem:
                yield Failed(stage="pad", error=problem)
                return

    def _check(self, traced: Traced, sizes: dict[str, int]) -> str | None:
        job = traced.job
        shown = ", ".join(f"{name}={size}" for name, size in sizes.items())
        padded = ", ".join(str(job.dims[name]) for name in sizes)
        where = f"functions.{job.name}.pad: padding {shown} to {padded}"
        try:
            with unchanged_config(f"functions.{job.name}.pad"):
                problem = self._problem(traced, sizes)
        except TraceRefused as err:
            problem = str(err)
        except BaseException as err:  # noqa: BLE001 (the function may raise anything)
            problem = f"it could not be tried: the function raised\n{user_traceback(err)}"
        if not problem:
            return None
        remedy = _REMEDY.format(name=next(iter(sizes)))
        return f"{where}: {problem}\n{remedy}"

    def _problem(self, traced: Traced, sizes: dict[str, int]) -> str | None:
        padding = traced.function.pad
        assert padding is not None, "with_padding has found the axes"
        exact = lower_job(traced, traced.job.at(**sizes))
        padded = lower_job(traced, traced.job.at())
        given = given_leaves(exact.jitted)
        digests = ((leaf, sha256_hex(array.tobytes())) for leaf, array in sorted(given.items()))
        key = padding_key(
            modules=[exact.identity, padded.identity],
            padding=padding.to_json(),
            leaves=[str(to_aval(leaf)) for leaf in jax.tree.leaves(exact.jitted.canonical)],
            given=digests,
            tolerances=[traced.job.function.verify.rtol, traced.job.function.verify.atol],
            machine=machine().to_json(),
            provenance=self.provenance,
        )
        if self.store.get(key) is not None:
            return None
        problem = _compare(traced, padding, exact, padded, given)
        if problem is None:
            self.store.put(key, Entry({"padding": "changes nothing"}, b""))
        return problem


def _smaller(traced: Traced) -> dict[str, int]:
    """Return the size to pad from, by dim, of dims that have one and are not called safe."""
    job, found = traced.job, {}
    for index, dim in enumerate(job.function.padded_dims):
        size = smaller_size(job, index, job.dims[dim.name], granularity(traced))
        if size is not None and not dim.safe:
            found[dim.name] = size
    return found


def _with_two(traced: Traced, sizes: dict[str, int]) -> Iterator[dict[str, int]]:
    """Yield the sizes, and then others that have 2 where these have 1.

    One element proves little: it is its own sum, and it is the first in every order.
    """
    yield sizes
    here = traced.job.dims
    others = {n: 2 if size == 1 and here[n] > 2 else size for n, size in sizes.items()}
    if others != sizes:
        yield others


def _compare(
    traced: Traced,
    padding: Padding,
    exact: Reference,
    padded: Reference,
    given: Mapping[int, Any],
) -> str | None:
    """Return the first difference of the results, and where it is; None if there is none."""
    avals = [to_aval(leaf) for leaf in jax.tree.leaves(exact.jitted.canonical)]
    seeds = [as_argument(index, aval, given) for index, aval in enumerate(avals)]
    sizes = tuple(padded.jitted.job.dims[dim.name] for dim in padding.dims)
    verify = traced.job.function.verify
    floats = tuple(float_dtypes(traced.closed_jaxpr))
    tolerance = Tolerance(HOST, floats, verify.rtol, verify.atol)
    paths = jax.tree_util.tree_flatten_with_path(result_tree(exact.stage, traced.job.call))[0]
    small_run, large_run = exact.compile(), padded.compile()
    for change in _ARGUMENTS:
        small = [
            leaf if index in given or not own else change(leaf, _middle(padding, own))
            for index, (leaf, own) in enumerate(zip(seeds, padding.leaves, strict=True))
        ]
        large = [
            _pad_leaf(padding, leaf, own, sizes) if own else leaf
            for leaf, own in zip(small, padding.leaves, strict=True)
        ]
        wanted, found = exact.outputs(small_run, small), padded.outputs(large_run, large)
        for (path, _), want, have in zip(paths, wanted, found, strict=True):
            cut = have[tuple(slice(size) for size in want.shape)]
            text = _difference(want, cut, tolerance)
            # Only the first kind of arguments, those of golden outputs, must give finite numbers.
            if text and (text != _NOTHING_FINITE or change is _as_seeded):
                return f"result{jax.tree_util.keystr(path)} {text}"
    return None


def _difference(want: Any, have: Any, tolerance: Tolerance) -> str | None:
    """Return the first difference of two numpy arrays of one shape; None if near enough."""
    if not want.size:
        return None
    dtype = str(want.dtype)
    if not default_tolerance(dtype, tolerance.platform):
        return _first(want, have, want == have)
    want, have = widened(want), widened(have)
    if not np.isfinite(want).any():
        return _NOTHING_FINITE
    return _first(want, have, near(want, have, tolerance.bound(want, dtype)))


def _first(want: Any, have: Any, is_same: Any) -> str | None:
    if is_same.all():
        return None
    index = tuple(map(int, np.argwhere(~np.atleast_1d(is_same))[0]))
    want, have = np.atleast_1d(want)[index], np.atleast_1d(have)[index]
    count = int((~is_same).sum())
    return (
        f"changes in {count} of {is_same.size} numbers, first at {list(index)}\n"
        f"  expected {want}\n  found    {have}\n{_VARIES}"
    )


def _pad_leaf(
    padding: Padding, leaf: Any, axes: tuple[tuple[int, int], ...], sizes: tuple[int, ...]
) -> Any:
    """Return a numpy array padded to the sizes of its dims; see `format.padding` for corners.

    `runtime.padding` does the same, but a worker may not import it.
    """
    array = np.asarray(leaf)
    for axis, dim in sorted(axes, key=lambda pair: pair[1]):
        shape = resized(((axis, dim),), array.shape, sizes)
        larger = np.full(shape, padding.dims[dim].value, array.dtype)
        larger[tuple(slice(size) for size in array.shape)] = array
        array = larger
    return array


def _middle(padding: Padding, axes: tuple[tuple[int, int], ...]) -> float:
    """Return the value that an array is padded with; 0 if seeded numbers vanish beside it."""
    value = padding.dims[axes[0][1]].value
    return value if abs(value) < _LARGE else 0


def _as_seeded(array: Any, _: float) -> Any:
    return array


def _above(array: Any, value: float) -> Any:
    return (value + np.abs(array)).astype(array.dtype) if _has_sign(array) else array


def _below(array: Any, value: float) -> Any:
    return (value - np.abs(array)).astype(array.dtype) if _has_sign(array) else array


def _has_sign(array: Any) -> bool:
    kinds = np.signedinteger, np.floating
    return any(jax.numpy.issubdtype(array.dtype, kind) for kind in kinds)


# A maximum shows padding only if no number is above the padding, a minimum only if none is below.
_ARGUMENTS = (_as_seeded, _above, _below)
