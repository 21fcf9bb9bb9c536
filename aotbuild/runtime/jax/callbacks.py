"""Host callbacks: the functions that a record names are imported, and called as jax calls them.

Imported only for a record that has callbacks. Compare the `_impl` functions of jax._src.callback
and jax._src.debugging, and `emit_python_callback`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from aotbuild.errors import NoExecutable
from aotbuild.format.record import HostCallback, Record
from aotbuild.format.target import HOST
from aotbuild.format.values import decode
from aotbuild.runtime.binding import restore
from aotbuild.runtime.jax import private
from aotbuild.runtime.named_objects import import_named

if TYPE_CHECKING:
    from aotbuild.runtime.trees import Trees

_SUMMARY = "what its executable calls back cannot be called here"
_REMEDY = (
    "Install the module in the version that the wheel was built with, or set AOTBUILD_FALLBACK=jit."
)


def bind(record: Record, trees: Trees, count: Callable[[str], None]) -> list[Callable[..., Any]]:
    """Return what an executable calls back, by index. `count` is called at each call.

    NoExecutable if a function cannot be imported.
    """
    try:
        return [_Callback(each, _target(each), trees, count) for each in record.calling.callbacks]
    except Exception as err:  # importing a module may raise anything
        lines = [f"{record}: REFUSED: {type(err).__name__}: {err}"]
        raise NoExecutable(record.function, _SUMMARY, lines, _REMEDY) from err


def _target(callback: HostCallback) -> Callable[..., Any]:
    if callback.kind == "print":
        options = {name: decode(value) for name, value in callback.printing["options"].items()}
        return partial(private.print_formatted, {**callback.printing, "options": options})
    found = import_named(callback.call)
    if not callable(found):
        msg = f"{callback.call} is not callable"
        raise AttributeError(msg)
    target: Callable[..., Any] = found
    return target


class _Callback:
    """One callback as XLA calls it: numpy arrays in and out, after a token if it is ordered."""

    def __init__(
        self,
        callback: HostCallback,
        target: Callable[..., Any],
        trees: Trees,
        count: Callable[[str], None],
    ) -> None:
        self._callback, self._target, self._count = callback, target, count
        self._treedef = restore(callback.tree, None, trees, "callbacks.tree", "a host callback")
        self._statics = [(leaf, decode(value)) for leaf, value in callback.statics]
        self._results = [(aval.shape, private.dtype_of(aval)) for aval in callback.results]

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        self._count("host_callbacks")
        token, arrays = (values[:1], values[1:]) if self._callback.ordered else ((), values)
        host = jax.local_devices(backend=HOST)[0]
        leaves = jax.device_put(list(arrays), host)
        for leaf, value in self._statics:
            leaves.insert(leaf, value)
        args, kwargs = self._treedef.unflatten(leaves)
        with jax.default_device(host):
            found = self._target(*args, **kwargs)
            if self._callback.kind in ("debug", "print"):
                return token
            return (*token, *self._checked(jax.tree.leaves(found)))

    def _checked(self, found: Sequence[Any]) -> list[Any]:
        """Return results as numpy arrays; RuntimeError, as jax raises it, if they do not fit."""
        arrays = [_canonical(np.asarray(value)) for value in found]
        expected = self._results
        if len(arrays) != len(expected):
            msg = f"{self._callback.call}: expected {len(expected)} results, found {len(arrays)}"
            raise RuntimeError(msg)
        for number, (array, (shape, dtype)) in enumerate(zip(arrays, expected, strict=True)):
            if array.shape != shape or array.dtype != dtype:
                have, want = f"{array.dtype}{list(array.shape)}", f"{dtype}{list(shape)}"
                msg = f"{self._callback.call}: result {number}: expected {want}, found {have}"
                raise RuntimeError(msg)
        return arrays


def _canonical(array: Any) -> Any:
    """Return an array in the dtype that jax gives it: without x64, of 32 bits."""
    return np.asarray(array, jax.dtypes.canonicalize_dtype(array.dtype))
