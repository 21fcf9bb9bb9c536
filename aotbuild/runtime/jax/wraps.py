"""What calls under `nnx.jit` and `eqx.filter_jit` mean, with jax's arrays and flax's objects.

flax is imported here at the first call of a kernel that takes its objects; the caller has imported
it then. equinox is not needed: its modules are pytrees, and what is not an array is static.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from aotbuild.errors import AotbuildError
from aotbuild.format.signature import Function
from aotbuild.format.tree import register_markers
from aotbuild.format.wrap import FILTER_JIT, NNX_JIT, FilterJit, NnxJit, WriteBack

# The library of each wrap, and its jit there.
_JITS = {NNX_JIT: ("flax.nnx", "jit"), FILTER_JIT: ("equinox", "filter_jit")}


def make_wrap(function: Function) -> JaxFilterJit | JaxNnxJit:
    """Return the wrap of a function; AotbuildError if its library is missing or it is unknown."""
    register_markers(jax.tree_util.register_pytree_node)
    if function.wrap == FILTER_JIT:
        return JaxFilterJit(jax.tree_util.tree_flatten, _is_array)
    if function.wrap == NNX_JIT:
        flax = _library(NNX_JIT)
        variable = flax.Variable
        wrap = NnxJit(jax.tree_util.tree_flatten, lambda x: isinstance(x, variable))
        return JaxNnxJit(wrap.flatten, wrap.is_variable, WriteBack(wrap, flax.data, flax.static))
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
    """See `runtime.backend.CallWrap`."""

    def finish(self, outputs: Any, _units: Sequence[Any], _values: Sequence[Any]) -> Any:
        """Return the outputs: static leaves are in their places already."""
        return outputs


@dataclass(frozen=True)
class JaxNnxJit(NnxJit):
    """See `runtime.backend.CallWrap`; `finish` writes into the caller's objects."""

    finish: WriteBack
