"""What calls under `nnx.jit` and `eqx.filter_jit` mean, with jax's arrays and flax's objects.

flax is imported here at the first call of a kernel that takes its objects; the caller has imported
it then. equinox is not needed: its modules are pytrees, and what is not an array is static.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from aotbuild.errors import AotbuildError
from aotbuild.frozen import dataclass
from aotbuild.runtime.backends.protocol import CallWrap
from aotbuild.spec.signature import Function
from aotbuild.spec.tree import Marker, register_markers
from aotbuild.spec.wrap import FILTER_JIT, NNX_JIT, FilterJit, NnxJit

# The library of each wrap, and its jit there.
_JITS = {NNX_JIT: ("flax.nnx", "jit"), FILTER_JIT: ("equinox", "filter_jit")}


def make_wrap(function: Function) -> CallWrap:
    """Return the wrap of a function; AotbuildError if its library is missing or it is unknown."""
    register_markers(jax.tree_util.register_pytree_node)
    if function.wrap == FILTER_JIT:
        return JaxFilterJit(jax.tree_util.tree_flatten, _is_array)
    if function.wrap == NNX_JIT:
        variable = _library(NNX_JIT).Variable
        return JaxNnxJit(jax.tree_util.tree_flatten, lambda x: isinstance(x, variable))
    msg = f"{function.name}: unknown wrap {function.wrap!r}; install a newer aotbuild"
    raise AotbuildError(msg)


def jit_of(wrap: str, source: Callable[..., Any], statics: tuple[str, ...]) -> Callable[..., Any]:
    """Return a function under the jit that a wrap stands for."""
    options = {"static_argnames": statics} if statics and wrap == NNX_JIT else {}
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
    """See `runtime.backends.protocol.CallWrap`."""

    def finish(self, outputs: Any, _units: Sequence[Any], _values: Sequence[Any]) -> Any:
        """Return the outputs: static leaves are in their places already."""
        return outputs


@dataclass(frozen=True)
class JaxNnxJit(NnxJit):
    """See `runtime.backends.protocol.CallWrap`."""

    def finish(self, outputs: Any, units: Sequence[Any], values: Sequence[Any]) -> Any:
        """Write new values into the caller's Variables, and return the function's result.

        `outputs` are the result, the new values by the positions of their Variables, and whether
        the result holds objects of the caller.
        """
        result, updates, refers = outputs
        for position, value in updates.items():
            units[position].set_raw_value(value)
        return _with_objects(result, values) if refers else result


def _with_objects(result: Any, values: Sequence[Any]) -> Any:
    """Return a result with the caller's own objects in the place of their markers."""

    def resolve(leaf: Any) -> Any:
        return _child(values, leaf.value) if isinstance(leaf, Marker) else leaf

    return jax.tree.map(resolve, result, is_leaf=lambda x: isinstance(x, Marker))


def _child(value: Any, path: Sequence[int]) -> Any:
    for index in path:
        children = jax.tree.leaves(value, is_leaf=lambda x, node=value: x is not node)
        value = children[index]
    return value
