"""Kernels of functions under `nnx.jit` or `eqx.filter_jit`: objects in, objects out.

The C++ dispatch sees a key and arrays; see `format.wrap`. It finds an executable by them as it does
for other functions, and nothing of the objects is traced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from aotbuild.errors import NoExecutable
from aotbuild.format.signature import Function
from aotbuild.runtime.binding import Bound, bind, rebind

if TYPE_CHECKING:
    from aotbuild.format.wrap import Key
    from aotbuild.runtime.backend import Backend

_NO_STATICS = "[]"


class _HasTracers(Exception):
    """A call inside a transformation, or under `jax.disable_jit`: the source has to serve it."""


def wrapped_call(
    function: Function,
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
    wrap = backend.wrap(function)
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
            return call_source(*args, **kwargs)
        except NoExecutable as error:
            return fall_back(error, args, kwargs)
        return finish(outputs, units, values)

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
