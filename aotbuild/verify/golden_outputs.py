"""Golden outputs: calling an executable and comparing its results with those of the function.

The format of samples is specified in `docs/reference/format.md`, the tolerances in
`docs/how-to/verify-outputs.md`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aotbuild.errors import AotbuildError
from aotbuild.format.aval import Aval
from aotbuild.format.golden import (
    DIGEST,
    SPREAD,
    Tolerance,
    default_tolerance,
    digest_of,
    distance,
    is_exact,
    near,
    sample_indices,
    seeded,
    stored_bytes,
    widened,
)
from aotbuild.format.record import Constant, Record
from aotbuild.format.tensors import Tensor, read_tensors
from aotbuild.format.tree import LEAF, Tree, children_of
from aotbuild.format.values import shown
from aotbuild.runtime.checked_blobs import Mapper, Source, read_blob
from aotbuild.runtime.constants import read_constant
from aotbuild.runtime.package import UNREGISTERED
from aotbuild.verify.outcome import Callee, Result, Status

VERDICT = "the executable computes something else than the function did when it was built"
_SHOWN = 8


@dataclass(frozen=True)
class Wanted:
    """What is known of a result: the elements at `indices`, and the SHA-256 of all, or None.

    `spread` is how far rounded arguments moved an element.
    """

    sample: Any
    indices: Any
    sha256: bytes | None = None
    spread: float = 0.0


def read_samples(data: bytes, arrays: Sequence[Any]) -> list[Wanted]:
    """Return what golden outputs say of each output; ValueError if that does not fit its dtype."""
    try:
        found = read_tensors(data)
    except ValueError as err:
        msg = f"the golden outputs cannot be read: {err}"
        raise ValueError(msg) from err
    tensors = {name: _array(data, tensor) for name, tensor in found.items()}
    names = {str(index) for index in range(len(arrays))}
    found_names = {name.removesuffix(DIGEST).removesuffix(SPREAD) for name in tensors}
    if found_names != names or not names <= tensors.keys():
        msg = f"expected golden outputs of {len(arrays)} results, found {len(tensors)} of others"
        raise ValueError(msg)
    digests = {name: tensor.tobytes() for name, tensor in tensors.items() if DIGEST in name}
    spreads = {name: float(tensor.sum()) for name, tensor in tensors.items() if SPREAD in name}
    return [
        Wanted(
            _as(tensors[str(index)], array, index),
            sample_indices(array.size),
            digests.get(f"{index}{DIGEST}"),
            spreads.get(f"{index}{SPREAD}", 0.0),
        )
        for index, array in enumerate(arrays)
    ]


def _array(data: bytes, tensor: Tensor) -> Any:
    flat = np.frombuffer(data[tensor.begin : tensor.end], tensor.dtype)
    return flat.reshape(tensor.shape)


def differences(
    record: Record, arrays: Sequence[Any], wanted: Sequence[Wanted], platform: str
) -> list[str]:
    """Return the differences between outputs and golden ones; empty within the tolerances."""
    lines, _ = compare(record, arrays, wanted, platform)
    return [*lines, VERDICT, *_about_options(record)] if lines else []


def compare(
    record: Record, arrays: Sequence[Any], wanted: Sequence[Wanted], platform: str
) -> tuple[list[str], float]:
    """Return the differences of results, and the largest error as a multiple of its tolerance."""
    stated, golden = record.provenance.get("floats"), record.golden
    floats = tuple(map(str, stated)) if isinstance(stated, list) else ()
    given = (golden.rtol, golden.atol) if golden else ()
    tolerance = Tolerance(platform, floats, *given)
    paths = leaf_paths(record.calling.out_tree, record.signature.tree)
    lines, errors = [], [0.0]
    for index, (array, want) in enumerate(zip(arrays, wanted, strict=True)):
        path = paths[index] if index < len(paths) else f"[{index}]"
        line, error = _difference(f"result{path}", array, want, tolerance)
        lines += [line] if line else []
        errors.append(error)
    more = [f"and {len(lines) - _SHOWN} more results"] if len(lines) > _SHOWN else []
    return [*lines[:_SHOWN], *more], max(errors)


def _about_options(record: Record) -> list[str]:
    options = record.provenance.get("compiler_options")
    if not options:
        return []
    remedy = "if they make it less exact, give rtol and atol under verify: in the manifest"
    return [f"unlike that, it was compiled with compiler_options {options}; {remedy}"]


def leaf_paths(tree: Tree, inputs: Tree) -> list[str]:
    """Return the path of each leaf of an output tree, as `['y'][0]`."""
    if tree == LEAF:
        return [""]
    if tree[0] == "input":
        for step in tree[1]:
            inputs = children_of(inputs)[step]
        return leaf_paths(inputs, inputs)
    keys: Iterable[str] = (f"[{index}]" for index in range(len(children_of(tree))))
    if tree[0] == "dict":
        keys = (f"[{shown(key)}]" for key in tree[1])
    pairs = zip(keys, children_of(tree), strict=True)
    return [f"{key}{path}" for key, child in pairs for path in leaf_paths(child, inputs)]


def _as(tensor: Any, array: Any, index: int) -> Any:
    size = len(sample_indices(array.size))
    if tensor.ndim not in (1, 2) or tensor.nbytes != size * array.dtype.itemsize:
        msg = (
            f"golden output {index}: expected {size} elements of {array.dtype}, found "
            f"{tensor.dtype}{list(tensor.shape)}"
        )
        raise ValueError(msg)
    return np.ascontiguousarray(tensor).reshape(-1).view(array.dtype)


def _difference(
    name: str, array: Any, wanted: Wanted, tolerance: Tolerance
) -> tuple[str | None, float]:
    """Return the line about an output that differs, and its largest error per tolerance."""
    want, indices, dtype = wanted.sample, wanted.indices, str(array.dtype)
    have = array.reshape(-1)[indices]
    if default_tolerance(dtype, tolerance.platform):
        want, have = widened(want), widened(have)
        error, bound = distance(want, have), tolerance.bound(want, dtype, wanted.spread)
        is_same = near(want, have, bound)
    else:
        # Only rounding of floats, which decides an integer, is a reason for another one.
        may_differ = tolerance.floats and dtype != "bool"
        error, bound = _distance(have, want), tolerance.atol or 0 if may_differ else 0
        is_same = error <= bound
    with np.errstate(all="ignore"):
        # NaN beside NaN is no error, and NaN beside a number the largest.
        ratios = np.nan_to_num(error / bound, nan=0.0, posinf=np.inf)
    worst = float(np.where(~is_same & np.isnan(error), np.inf, ratios).max(initial=0.0))
    if not is_same.all():
        return _worst(name, array.shape, indices, (want, have, is_same, error, bound)), worst
    if wanted.sha256 is not None and is_exact(dtype) and digest_of(array) != wanted.sha256:
        text = f"{name}: its {len(indices)} sampled elements are equal, and others are not"
        return f"{text}: the SHA-256 of all {array.size:,} integers differs", np.inf
    return None, worst


def _distance(have: Any, want: Any) -> Any:
    """Return the differences of integers or booleans, without wrapping around."""
    if have.dtype.kind == "b" or have.dtype.itemsize == 8:
        gap = np.abs(have.astype(np.float64) - want.astype(np.float64))
        return np.where(have == want, 0.0, np.maximum(1.0, gap))
    return np.abs(have.astype(np.int64) - want.astype(np.int64))


def _worst(name: str, shape: tuple[int, ...], indices: Any, found: tuple[Any, ...]) -> str:
    """Return the line about one output, with the element furthest outside its tolerance."""
    want, have, is_same, error, bound = found
    bound = np.broadcast_to(bound, error.shape)
    with np.errstate(all="ignore"):
        excess = np.where(is_same, -1.0, np.nan_to_num(error - bound, nan=np.inf, posinf=np.inf))
    worst = int(np.argmax(excess))
    place = [int(i) for i in np.unravel_index(int(indices[worst]), shape)] if shape else []
    wrong = int((~is_same).sum())
    return (
        f"{name}: {wrong} of {len(indices)} sampled elements differ; the worst is {place}: "
        f"expected {_text(want[worst])}, found {_text(have[worst])}, "
        f"tolerance {float(bound[worst]):.3g}"
    )


def _text(number: Any) -> str:
    return f"{number:.8g}" if number.dtype.kind in "fc" else str(number)


_NO_MEMORY = "RESOURCE_EXHAUSTED"


def why_not(record: Record) -> str | None:
    """Return why a record has no usable golden outputs, or None."""
    if record.golden is None:
        reason = record.provenance.get("golden")
        return f"it has no golden outputs: {reason}" if reason else "it has no golden outputs"
    avals = [*record.signature.leaves, *record.calling.outputs]
    needed, memory = sum(map(stored_bytes, avals)), _memory()
    if memory is not None and needed > memory // 2:
        return f"its arguments and results need {needed:,} of {memory:,} bytes of memory"
    return None


def check_golden(source: Source, record: Record, call: Callee, platform: str) -> Result:
    """Call an executable with golden inputs and compare what it returns."""
    assert record.golden is not None
    leaves = golden_leaves(source, record, call.physical)
    try:
        outputs = call.run(leaves)
    except AotbuildError:  # a blob of the inputs is damaged
        raise
    except Exception as err:  # noqa: BLE001 - jaxlib raises RuntimeError, ValueError and its own
        if any(text in str(err) for text in UNREGISTERED):
            return Status.NOT_CHECKED, [f"it calls what your package registers: {err}"]
        if _NO_MEMORY in str(err):
            return Status.NOT_CHECKED, [f"the device has too little free memory: {err}"]
        return Status.FAIL, [f"calling it raised {type(err).__name__}: {err}"]
    try:
        wanted = read_samples(read_blob(source, record.golden.outputs), outputs)
    except (ValueError, AotbuildError) as err:
        return Status.FAIL, [str(err)]
    reasons = differences(record, outputs, wanted, platform)
    return (Status.FAIL if reasons else Status.PASS), reasons


def golden_leaves(
    source: Source, record: Record, physical: Callable[[Aval], tuple[tuple[int, ...], Any]]
) -> Iterator[Any]:
    """Yield the golden inputs as numpy arrays, one at a time: they may be large.

    A record without golden outputs gets seeded numbers.
    """
    given = dict(record.golden.inputs) if record.golden else {}
    for index, aval in enumerate(record.signature.leaves):
        if index in given:
            constant = Constant(aval, given[index])
            yield read_constant(source, Mapper(maps=False), constant, *physical(aval))
        else:
            yield seeded(index, aval)


def _memory() -> int | None:
    """Return the memory of this machine in bytes, or None if unknown."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return None
