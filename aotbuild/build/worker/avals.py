"""Argument specs to trees of avals, as `jax.jit` takes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from aotbuild.build import jax_private
from aotbuild.build.manifest import (
    ArgSpec,
    DictSpec,
    LeafSpec,
    LikeSpec,
    ListSpec,
    NoneSpec,
    TupleSpec,
)
from aotbuild.build.worker.resolve import resolve, user_traceback
from aotbuild.errors import TraceRefused
from aotbuild.spec.aval import Aval

Dims = Callable[[str], Any]


def make_avals(spec: ArgSpec, role: str, symbolic: Dims | None = None) -> Any:
    """Return the pytree of `jax.ShapeDtypeStruct` that a spec describes.

    `symbolic` turns the expression of a symbolic dim into one. TraceRefused names `role`.
    """
    match spec:
        case LeafSpec():
            return _leaf(spec, role, symbolic)
        case LikeSpec():
            return _like(spec, role, symbolic)
        case ListSpec(items):
            return [make_avals(item, f"{role}[{i}]", symbolic) for i, item in enumerate(items)]
        case TupleSpec(items):
            parts = (make_avals(item, f"{role}[{i}]", symbolic) for i, item in enumerate(items))
            return tuple(parts)
        case DictSpec(items):
            return {key: make_avals(item, f"{role}.{key}", symbolic) for key, item in items}
        case NoneSpec():
            return None


def to_aval(leaf: Any) -> Aval:
    """Return the aval of a `ShapeDtypeStruct` or an abstract value of jax."""
    return Aval(tuple(map(int, leaf.shape)), str(leaf.dtype), bool(leaf.weak_type))


def _leaf(spec: LeafSpec, role: str, symbolic: Dims | None) -> Any:
    shape = tuple(symbolic(d) if symbolic and isinstance(d, str) else d for d in spec.shape)
    if Aval((), spec.dtype).needs_x64 and not jax.config.jax_enable_x64:
        msg = (
            f"{role}: dtype {spec.dtype} needs 64-bit mode; set config: "
            "{jax_enable_x64: true}, or use the 32-bit dtype"
        )
        raise TraceRefused(msg)
    dtype = jax_private.dtype_of(spec.dtype)
    return jax.ShapeDtypeStruct(shape, dtype, weak_type=spec.weak_type)


def _like(spec: LikeSpec, role: str, symbolic: Dims | None) -> Any:
    found = resolve(spec.ref, role)
    found = getattr(found, "__aotbuild_source__", found)
    values = {k: symbolic(v) if symbolic and isinstance(v, str) else v for k, v in spec.values}
    try:
        if callable(found) and not _is_tree_of_arrays(found):
            return jax.eval_shape(lambda: found(**values))
        return jax.eval_shape(lambda tree: tree, found)
    except Exception as err:  # user code may raise anything
        msg = f"{role}: like: {spec.ref} gave no tree of arrays\n{user_traceback(err)}"
        raise TraceRefused(msg) from err


def _is_tree_of_arrays(value: Any) -> bool:
    """Whether a callable is itself a pytree, as a module with a `__call__`, not a function."""
    return not isinstance(value, type) and jax.tree.structure(value) != jax.tree.structure(0)
