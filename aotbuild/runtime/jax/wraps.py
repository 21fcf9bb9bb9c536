"""Functions under `nnx.jit` and `eqx.filter_jit`: objects in, objects out.

The C++ dispatch sees a key and arrays; see `format.wrap`. It finds an executable by them as it does
for other functions, and nothing of the objects is traced. flax is imported here at the first call
of a kernel that takes its objects; the caller has imported it then. equinox is not needed: its
modules are pytrees, and what is not an array is static.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from aotbuild.errors import AotbuildError, NoExecutable
from aotbuild.format.signature import Function
from aotbuild.format.tree import register_markers
from aotbuild.format.wrap import FILTER_JIT, NNX_JIT, FilterJit, NnxJit, WriteBack
from aotbuild.runtime.binding import Bound, bind, rebind

if TYPE_CHECKING:
    from aotbuild.format.wrap import Key
    from aotbuild.runtime.backend import Backend, CallWrap

# The library of each wrap, and its jit there.
_JITS = {NNX_JIT: ("flax.nnx", "jit"), FILTER_JIT: ("equinox", "filter_jit")}
_NO_STATICS = "[]"


def make_wrap(function: Function) -> JaxFilterJit | JaxNnxJit:
    """Return the wrap of a function; AotbuildError if its library is missing or it is unknown."""
    register_markers(jax.tree_util.register_pytree_node)
    if function.wrap == FILTER_JIT:
        return JaxFilterJit(jax.tree_util.tree_flatten, _is_array)
    if function.wrap == NNX_JIT:
        flax = _library(NNX_JIT)
        variable = flax.Variable
        wrap = NnxJit(jax.tree_util.tree_flatten, lambda x: isinstance(x, variable))
        return JaxNnxJit(wrap.flatten, wrap.is_variable, WriteBack(wrap))
    msg = f"{function.name}: unknown wrap {function.wrap!r}; install a newer aotbuild"
    raise AotbuildError(msg)


def jit_of(
    wrap: str, source: Callable[..., Any], statics: Mapping[str, tuple[int | str, ...]]
) -> Callable[..., Any]:
    """Return a function under the jit that a wrap stands for; `statics` are as for `jax.jit`."""
    options = statics if wrap == NNX_JIT else {}
    jitted: Callable[..., Any] = getattr(_library(wrap), _JITS[wrap][1])(source, **options)
    return jitted


def _library(wrap: str) -> Any:
    name = _JITS[wrap][0]
    try:
        return importlib.import_module(name)
    except ImportError as err:
        msg = f"a function under {wrap} needs {name}, which cannot be imported: {err}"
        raise AotbuildError(msg) from err


def _is_array(value: Any) -> bool:
    return isinstance(value, jax.Array | np.ndarray | np.generic)


@dataclass(frozen=True)
class JaxFilterJit(FilterJit):
    """See `runtime.backend.CallWrap`."""

    def finish(self, outputs: Any, _units: Sequence[Any], _values: Sequence[Any]) -> Any:
        """Return the outputs: static leaves are in their places already."""
        return outputs


@dataclass(frozen=True)
class JaxNnxJit(NnxJit):
    """See `runtime.backend.CallWrap`; `finish` writes into the caller's objects."""

    finish: WriteBack


# --- calls --------------------------------------------------------------------------------------


class _HasTracers(Exception):
    """A call inside a transformation, or under `jax.disable_jit`: the source has to serve it."""


def wrapped_call(
    function: Function,
    wrap: CallWrap,
    backend: Backend,
    on_tracers: Callable[[], None],
    run: Callable[[Bound], tuple[Any, Any, bool]],
    call_source: Callable[..., Any],
    fall_back: Callable[[NoExecutable, tuple[Any, ...], dict[str, Any]], Any],
) -> Callable[..., Any]:
    """Return what a kernel of a wrapped function is called by.

    `on_tracers` is told of a call inside a transformation. `run` serves a bound call whose trees
    have markers. `fall_back` gets the caller's arguments.
    """
    split, join, finish = wrap.split, wrap.join, wrap.finish

    def miss(key: Key, *arrays: Any) -> tuple[Any, Any, bool]:
        if backend.has_tracers(arrays):
            on_tracers()
            raise _HasTracers
        return run(_bound(function, key[0], join(key, arrays)))

    def source(*_: Any) -> Any:
        raise _HasTracers

    dispatch = backend.dispatch(function.name, source, miss, [0], [])
    count, is_simple = len(function.dynamic), _is_simple(function)

    def call(*args: Any, **kwargs: Any) -> Any:
        values, statics = args, _NO_STATICS
        try:
            if kwargs or not is_simple or len(args) != count:
                bound = bind(function, args, kwargs)
                values, statics = (*bound.args, *bound.kwargs.values()), bound.statics_key
            key, arrays, units = split(values, statics)
            outputs = dispatch(key, *arrays)
        except _HasTracers:
            error = None
        except NoExecutable as err:
            error = err
        else:
            return finish(outputs, units, values)
        # Not above: what the source raises would be shown as raised while handling another error.
        try:
            return fall_back(error, args, kwargs) if error else call_source(*args, **kwargs)
        finally:
            del error  # its traceback holds this frame

    return call


def with_markers(bound: Bound, backend: Backend) -> tuple[Bound, list[Any]]:
    """Return a call of a wrapped function with trees that have markers; and its units."""
    values = (*bound.args, *bound.kwargs.values())
    wrap = backend.wrap(bound.function)
    key, arrays, units = wrap.split(values, bound.statics_key)
    return _bound(bound.function, bound.statics_key, wrap.join(key, arrays)), units


def _bound(function: Function, statics: str, values: tuple[Any, ...]) -> Bound:
    count = len(function.dynamic)
    keywords = dict(zip(sorted(function.keywords), values[count:], strict=True))
    return rebind(function, statics, values[:count], keywords)


def _is_simple(function: Function) -> bool:
    """Return whether a call by position only gives the values as they are."""
    is_first = function.positional[: len(function.dynamic)] == function.dynamic
    return is_first and not function.statics and not function.keywords
