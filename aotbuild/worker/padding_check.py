"""Check that padding changes no result: call the function at a smaller size, and padded from it.

Dims that are padded from no smaller size keep theirs.
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
from aotbuild.format.golden import (
    Tolerance,
    default_tolerance,
    distance,
    near,
    root_mean_square,
    widened,
)
from aotbuild.format.padding import Padding, resized
from aotbuild.format.target import HOST
from aotbuild.platforms.base import machine
from aotbuild.store.entry import Entry
from aotbuild.store.folder import Store
from aotbuild.store.keys import padding_key
from aotbuild.worker.imports import unchanged_config
from aotbuild.worker.leaves import is_key_dtype, result_tree, to_aval
from aotbuild.worker.padding_axes import granularity, smaller_size
from aotbuild.worker.reference import (
    Reference,
    as_argument,
    check_seeds,
    float_dtypes,
    given_leaves,
    lower_job,
)
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
    "with a mask for one, give arguments like yours with verify: inputs:, or pad before the call."
)
# Beside larger values than this, seeded numbers vanish.
_LARGE = 100
# Another order of sums changed results up to 3 times as much as the last bit of each argument did
# (dense layers of 256 to 1,024 numbers, amplified a thousandfold, jaxlib 0.10.2).
_ROUNDINGS = 8
# The largest part of a result's size that counts as rounding: with more, a mean would pass.
_MOST_ROUNDED = 0.1
# How many of the rows that differ are named.
_SHOWN = 3


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
        return f"{where}: {problem}\n{_REMEDY}"

    def _problem(self, traced: Traced, sizes: dict[str, int]) -> str | None:
        padding = traced.function.pad
        assert padding is not None, "with_padding has found the axes"
        exact = lower_job(traced, traced.job.at(**sizes))
        padded = lower_job(traced, traced.job.at())
        given = given_leaves(exact.jitted)
        check_seeds(traced, given)
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
    """Return the size to pad from, by dim, of dims that have one."""
    job, found = traced.job, {}
    for index, dim in enumerate(job.function.padded_dims):
        size = smaller_size(job, index, job.dims[dim.name], granularity(traced))
        if size is not None:
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
    traced: Traced, padding: Padding, exact: Reference, padded: Reference, given: Mapping[int, Any]
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
        rounded: list[Any] = []
        for index, ((path, _), want, have) in enumerate(zip(paths, wanted, found, strict=True)):
            difference = Difference(want, have[tuple(slice(size) for size in want.shape)])
            # Only the first kind of arguments, those of golden outputs, must give finite numbers.
            if difference.is_undecided and change is not _as_seeded:
                continue
            if difference.is_within(tolerance):
                continue
            if tolerance.is_default:
                rounded = rounded or exact.outputs(small_run, list(map(_nudged, small)))
                if difference.is_within(tolerance, rounded[index]):
                    continue
            text = difference.text(padding, padding.outputs[index])
            return f"result{jax.tree_util.keystr(path)} {text}"
    return None


class Difference:
    """What differs between two numpy arrays of one shape."""

    def __init__(self, want: Any, have: Any) -> None:
        self.pair = want, have
        self.dtype = str(want.dtype)
        self.is_exact = not default_tolerance(self.dtype, HOST)
        self.want, self.have = widened(want), widened(have)
        self.differs = want != have

    @property
    def is_undecided(self) -> bool:
        """Whether they are floats of which none is finite."""
        return not self.is_exact and self.want.size > 0 and not np.isfinite(self.want).any()

    def is_within(self, tolerance: Tolerance, rounded: Any = None) -> bool:
        """Return whether nothing differs more than tolerated.

        `rounded` is the result of arguments with other last bits: what it changes is tolerated too.
        """
        if self.is_undecided:
            return False
        if not self.is_exact and self.want.size:
            bound = tolerance.bound(self.want, self.dtype)
            if rounded is not None:
                own = distance(self.want, widened(rounded))
                most = _MOST_ROUNDED * root_mean_square(self.want)
                noise = min(_ROUNDINGS * float(own[np.isfinite(own)].max(initial=0)), most)
                bound = np.where(np.isfinite(self.want), bound + noise, 0.0)
            self.differs = ~near(self.want, self.have, bound)
        return not self.differs.any()

    def text(self, padding: Padding, axes: tuple[tuple[int, int], ...]) -> str:
        """Return how much differs, where most, and in which rows of the first padded axis."""
        if self.is_undecided:
            return _NOTHING_FINITE
        far: Any = np.where(self.differs, distance(self.want, self.have), -1.0)
        far[np.isnan(far)] = np.inf
        most = tuple(map(int, np.unravel_index(int(far.argmax()), far.shape)))
        want, have = (array[most] for array in self.pair)
        axis, dim = axes[0] if axes else (0, 0)
        rows: Any = np.unique(np.argwhere(self.differs)[:, axis]) if axes else []
        named = ", ".join(map(str, rows[:_SHOWN])) + (", …" if len(rows) > _SHOWN else "")
        where = f", at {padding.dims[dim].name}={named}" if axes else ""
        return (
            f"changes in {int(self.differs.sum())} of {self.differs.size} numbers{where}\n"
            f"  expected {want} at {list(most)}, where it differs most: by {far[most]:.3g}\n"
            f"  found    {have}\n{_VARIES}"
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


def _nudged(array: Any) -> Any:
    """Return an array of wide floats with other last bits; masks and lengths, as 1.0, stay."""
    if is_key_dtype(array.dtype):
        return array
    array = np.asarray(array)
    if str(array.dtype) not in {"float32", "float64"}:
        return array
    odd = np.arange(array.size).reshape(array.shape) % 3 == 0
    other = np.nextafter(array, np.where(odd, np.inf, -np.inf).astype(array.dtype))
    return np.where(array == np.floor(array), array, other)


def _above(array: Any, value: float) -> Any:
    return (value + np.abs(array)).astype(array.dtype) if _has_sign(array) else array


def _below(array: Any, value: float) -> Any:
    return (value - np.abs(array)).astype(array.dtype) if _has_sign(array) else array


def _has_sign(array: Any) -> bool:
    kinds = np.signedinteger, np.floating
    return any(jax.numpy.issubdtype(array.dtype, kind) for kind in kinds)


# A maximum shows padding only if no number is above the padding, a minimum only if none is below.
_ARGUMENTS = (_as_seeded, _above, _below)
