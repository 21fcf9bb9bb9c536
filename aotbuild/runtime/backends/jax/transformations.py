"""JAX transformations: a call with tracers runs the Python source under jit.

An executable cannot be traced through. So inside jit, grad, vmap and the like, a kernel or a
function under `aotbuild.precompiled` calls the source, and the transformation sees its operations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import jax

from aotbuild.errors import NotTransformable
from aotbuild.runtime.backends.jax import private
from aotbuild.runtime.trees import import_object
from aotbuild.spec.signature import Function


def has_tracers(values: Sequence[Any]) -> bool:
    """Return whether one of some trees holds a tracer; False for trees that cannot be flattened."""
    try:
        leaves = jax.tree_util.tree_leaves(values)
    except ValueError:
        return False
    return any(isinstance(leaf, private.Tracer) for leaf in leaves)


def import_source(function: Function) -> Callable[..., Any]:
    """Return the source of a function under jit; NotTransformable if it cannot be imported."""
    try:
        source = import_object(function.call)
    except Exception as err:  # the user's module runs here and may raise anything
        reason = f"{type(err).__name__}: {err}"
        raise NotTransformable(function.name, function.call, reason) from err
    return jitted(function, source)


def jitted(function: Function, source: Any) -> Callable[..., Any]:
    """Return a source under jit, with the static arguments that it was compiled with."""
    source = getattr(source, "__aotbuild_source__", source)
    if hasattr(source, "lower"):
        return cast("Callable[..., Any]", source)
    names = tuple(static.name for static in function.statics)
    return cast("Callable[..., Any]", jax.jit(source, static_argnames=names or None))
