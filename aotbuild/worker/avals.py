"""Trees of avals: made from the manifest's specs, and described for the record."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax

from aotbuild.build.jobs import Job
from aotbuild.errors import TraceRefused
from aotbuild.format.aval import Aval
from aotbuild.format.dtypes import long_dtype
from aotbuild.format.outputs import describe_output
from aotbuild.format.tree import Tree, TreeRefused
from aotbuild.format.wrap import Wrap, is_marker
from aotbuild.manifest import (
    ArgSpec,
    DictSpec,
    LeafSpec,
    LikeSpec,
    ListSpec,
    NoneSpec,
    TupleSpec,
)
from aotbuild.worker import private as jax_private
from aotbuild.worker.leaves import key_path
from aotbuild.worker.like import Dims, like_tree


def make_avals(
    spec: ArgSpec, role: str, symbolic: Dims | None = None, wrap: Wrap | None = None
) -> Any:
    """Return the pytree of `jax.ShapeDtypeStruct` that a spec describes.

    `symbolic` makes a symbolic dim of an expression. Leaves of `like:` that are static under
    `wrap` stay as they are. TraceRefused begins with `role`.
    """

    def inner(item: ArgSpec, step: str) -> Any:
        return make_avals(item, f"{role}{step}", symbolic, wrap)

    match spec:
        case LeafSpec():
            return _leaf(spec, role, symbolic)
        case LikeSpec():
            return like_tree(spec, role, symbolic, wrap)
        case ListSpec(items):
            return [inner(item, f"[{i}]") for i, item in enumerate(items)]
        case TupleSpec(items):
            return tuple(inner(item, f"[{i}]") for i, item in enumerate(items))
        case DictSpec(items):
            return {key: inner(item, f".{key}") for key, item in items}
        case NoneSpec():
            return None


def check_dtypes(call: str, outputs: Iterable[tuple[Any, Any]]) -> None:
    """Raise TraceRefused if a result, given with its path, has a dtype that no record can name."""
    for path, leaf in outputs:
        place = f"{call} returns an array at result{jax.tree_util.keystr(path)} of dtype"
        if leaf.dtype == jax.dtypes.float0:
            msg = (
                f"{place} float0: the gradient for an integer or a bool, which holds nothing\n"
                "Return None or zeros in its place, or leave it out."
            )
            raise TraceRefused(msg)
        try:
            long_dtype(str(leaf.dtype))
        except ValueError as err:
            msg = f"{place} {leaf.dtype}, which no executable is made for here: {err}"
            raise TraceRefused(msg) from err


def describe_result(job: Job, result: Any, inputs: Any) -> Tree:
    """Return the description of a result; parts may refer to the inputs, `(args, kwargs)`."""
    try:
        return describe_output(jax.tree.structure(result), jax.tree.structure(inputs))
    except TreeRefused as err:
        what = _place(key_path(result, err.path), result)
        msg = (
            f"{job.call} {what.format(err.node)}: {err.reason}\n"
            "Return standard containers, namedtuples, registered dataclasses with plain static "
            "fields, or static data of an argument; such as the arrays alone, around which the "
            "caller makes the object again."
        )
        raise TraceRefused(msg) from err


def _place(path: tuple[Any, ...], result: Any) -> str:
    """Return where a node of the outputs comes from, with {} for its type."""
    if not (isinstance(result, tuple) and any(map(is_marker, result))):
        return f"returns a {{}} at result{_shown(path)}"
    # Outputs as in `format.nnx_outputs`.
    first, *below = path
    if first.idx == 0:
        return f"returns a {{}} at result{_shown(below)}"
    return f"puts a {{}} into an argument, at {_shown(below[2:] if first.idx > 1 else below)}"


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


def _shown(path: Iterable[Any]) -> str:
    return str(jax.tree_util.keystr(tuple(path)))
