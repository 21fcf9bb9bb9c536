"""Whether weights fit the constants of a package: their names, shapes and dtypes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np

from aotbuild.errors import WeightsMismatch
from aotbuild.format.aval import NARROWED, Aval
from aotbuild.format.canonical import as_utf8
from aotbuild.runtime.buffers import aligned
from aotbuild.runtime.weights import masked, odd_bools

_UNNAMED = "unnamed."
_SHOWN = 10
_REMEDY = (
    "Give every array of lib.constants() by its name; save_constants(path, tree, prefix=…) writes "
    "such a file. Arrays of at most 32 B and single numbers are compiled in."
)


def fit(
    package: str,
    source: str,
    physical: Callable[[Aval], tuple[tuple[int, ...], Any]],
    wanted: Sequence[tuple[str, Aval]],
    found: Mapping[str, Any],
) -> dict[tuple[str, Aval], Any]:
    """Return the array of each constant, in its dtype; WeightsMismatch names all problems.

    `source` names the weights in it. `physical` returns (shape, numpy dtype) of an aval.
    """
    names = {name for name, _ in wanted}
    unknown = sorted(found.keys() - names)
    # Hints take time, and no more are shown.
    problems = [_unknown(name, names) for name in unknown[:_SHOWN]]
    problems += unknown[_SHOWN:]
    fitting: dict[tuple[str, Aval], Any] = {}
    for name, aval in sorted(wanted, key=lambda pair: pair[0]):
        if name in found:
            shape, dtype = physical(aval)
            array = _converted(found[name], shape, dtype)
            if isinstance(array, str):
                problems.append(f"{name}: expected {aval}, found {array}")
            else:
                fitting[name, aval] = array
        elif not name.startswith(_UNNAMED):
            problems.append(f"{name}: missing; expected {aval}")
    if problems:
        more = [f"and {len(problems) - _SHOWN} more"] if len(problems) > _SHOWN else []
        # The names in a file may be what no terminal can print.
        shown = map(as_utf8, [*problems[:_SHOWN], *more])
        raise WeightsMismatch(package, as_utf8(source), [*shown], _REMEDY)
    return fitting


def _unknown(name: str, names: set[str]) -> str:
    close = get_close_matches(name, names, 1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    return f"{name}: no constant of this package{hint}"


def _converted(value: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Return an array of this dtype that nobody writes to, or what it is instead, as a text."""
    if problem := masked(value):
        return problem
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as err:  # such as one that was donated
        return f"{type(value).__name__}: {err}"
    bits = f"uint{8 * dtype.itemsize}"
    if str(array.dtype) == bits and dtype.isbuiltin != 1:
        array = array.view(dtype)
    if array.shape != shape or str(dtype) not in (
        str(array.dtype),
        NARROWED.get(str(array.dtype)),
    ):
        return f"{array.dtype}{list(array.shape)}"
    if problem := odd_bools(array):
        return problem
    is_own = type(value) is np.ndarray and not value.flags.writeable and array.dtype == dtype
    # A jax array may be donated later, and numpy's may be written to.
    return array if is_own else _copied(array, dtype)


def _copied(array: Any, dtype: Any) -> Any:
    """Return a copy in a dtype, or what is in the array that the dtype cannot hold, as a text."""
    copy = aligned(array.size * dtype.itemsize).view(dtype).reshape(array.shape)
    with np.errstate(over="ignore"):  # it is an error below
        copy[...] = array
    is_narrower = array.dtype.kind in "fc" and dtype.itemsize < array.dtype.itemsize
    if is_narrower and np.any(np.isinf(copy) & np.isfinite(array)):
        return f"{array.dtype}{list(array.shape)} with numbers that are inf in {dtype}"
    if array.dtype.kind in "iu" and not np.array_equal(copy, array):
        return f"{array.dtype}{list(array.shape)} with numbers that {dtype} does not hold"
    copy.flags.writeable = False
    return copy
