"""Leaves and the trees around them: avals, paths, digests, and trees made of avals."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import numpy as np

from aotbuild.build.jobs import Job
from aotbuild.errors import TraceRefused
from aotbuild.format.aval import Aval
from aotbuild.format.canonical import sha256_hex
from aotbuild.format.dtypes import long_dtype
from aotbuild.format.outputs import describe_output
from aotbuild.format.tree import Tree, TreeRefused, describe
from aotbuild.format.wrap import is_marker


def to_aval(leaf: Any) -> Aval:
    """Return the aval of a `ShapeDtypeStruct` or an abstract value of jax."""
    return Aval(tuple(map(int, leaf.shape)), str(leaf.dtype), bool(leaf.weak_type))


# --- trees --------------------------------------------------------------------------------------


def tree_of(treedef: Any, leaves: Sequence[Any], role: str) -> Any:
    """Return a tree with `ShapeDtypeStruct`s as its leaves.

    TraceRefused, which begins with `role`, if a type in it refuses or changes them: such a type
    takes arrays only.
    """
    try:
        tree = jax.tree.unflatten(treedef, leaves)
        found, structure = jax.tree.flatten(tree)
        problem = ""
    except Exception as err:  # noqa: BLE001 (the user's type may raise anything)
        found, structure, problem = [], None, f": {type(err).__name__}: {err}"
    is_same = len(found) == len(leaves) and all(map(operator.is_, found, leaves))
    if is_same and same_structure(structure, treedef):
        return tree
    msg = (
        f"{role}: a type in this tree takes arrays only, not the jax.ShapeDtypeStructs that stand "
        f"for them in a build{problem}\nUse its arrays there, and make the object around them "
        "where they are used."
    )
    raise TraceRefused(msg)


def result_tree(traced: Any, call: str) -> Any:
    """Return the result of a `jax.stages.Traced`, with a `ShapeDtypeStruct` for each array."""
    leaves = [
        jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)
        for aval in traced.jaxpr.out_avals
    ]
    return tree_of(traced.out_tree, leaves, f"{call}: the result")


def same_structure(one: Any, other: Any) -> bool:
    """Return whether two treedefs are equal, also where comparing static data raises."""
    try:
        return bool(one == other)
    except Exception:  # noqa: BLE001 (such as numpy's, about the truth of an array)
        try:
            return bool(describe(one) == describe(other))
        except TreeRefused:
            return False


def key_path(tree: Any, indices: tuple[int, ...]) -> tuple[Any, ...]:
    """Return the key path of the node at these child indices."""
    if not indices:
        return ()
    children = jax.tree_util.tree_flatten_with_path(tree, is_leaf=lambda x: x is not tree)[0]
    (entry,), child = children[indices[0]]
    return (entry, *key_path(child, indices[1:]))


def named_path(path: tuple[Any, ...], names: tuple[str, ...]) -> tuple[Any, ...]:
    """Return a path in `(args, kwargs)`, its first two entries replaced by the argument's name."""
    kind, entry, *rest = path
    name = names[entry.idx] if kind.idx == 0 else entry.key
    return (name, *rest)


# --- results ------------------------------------------------------------------------------------


def check_results(
    call: str, outputs: Iterable[tuple[Any, Any]], avals: Sequence[jax.core.AbstractValue]
) -> None:
    """Raise TraceRefused if a result, given with its path, is none that an executable can have."""
    for (path, leaf), aval in zip(outputs, avals, strict=True):
        found = f"{call} returns an array at result{jax.tree_util.keystr(path)}"
        if getattr(aval, "memory_space", None) is jax.memory.Space.Host:
            msg = (
                f"{found} in the host's memory; results are in the device's own\n"
                "Return it on the device, and move it where it is used."
            )
            raise TraceRefused(msg)
        place = f"{found} of dtype"
        if leaf.dtype == jax.dtypes.float0:
            msg = (
                f"{place} float0: the gradient for an integer or a bool, which holds nothing\n"
                "Return None or zeros in its place, or leave it out."
            )
            raise TraceRefused(msg)
        try:
            long_dtype(str(leaf.dtype))
        except ValueError as err:
            msg = f"{place} {leaf.dtype}, which no executable takes: {err}"
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
    # Outputs as in `format.wrap`.
    first, *below = path
    if first.idx == 0:
        return f"returns a {{}} at result{_shown(below)}"
    return f"puts a {{}} into an argument, at {_shown(below[2:] if first.idx > 1 else below)}"


def _shown(path: Iterable[Any]) -> str:
    return str(jax.tree_util.keystr(tuple(path)))


# --- arrays -------------------------------------------------------------------------------------


def is_key_dtype(dtype: Any) -> bool:
    """Return whether a dtype is one of typed PRNG keys, as `key<fry>`."""
    return bool(jax.numpy.issubdtype(dtype, jax.dtypes.prng_key))


def as_numpy(array: Any) -> Any:
    """Return an array as numpy's; typed PRNG keys become their key data."""
    if is_key_dtype(array.dtype):
        array = jax.random.key_data(array)
    return np.asarray(array)


def layout_order(value: Any) -> tuple[int, ...] | None:
    """Return the `major_to_minor` of an array whose device layout is not row-major, else None."""
    layout = getattr(getattr(value, "format", None), "layout", None)
    order = getattr(layout, "major_to_minor", None)
    return None if order is None or [*order] == sorted(order) else tuple(order)


def is_array(value: Any) -> bool:
    """Return whether a value is an array of numpy or jax, or a literal one."""
    if isinstance(value, type):  # numpy's scalar types have these too, as descriptors
        return False
    return all(hasattr(value, name) for name in ("shape", "dtype", "__array__"))


def array_digest(value: Any) -> tuple[Any, ...]:
    """Return the dtype, shape and digest of an array; the type of a mutable one or a tracer."""
    data = None
    if not isinstance(value, jax.core.Tracer):
        try:
            data = as_numpy(value)
        except Exception:  # noqa: BLE001 (mutable and deleted arrays, arrays of other libraries)
            data = None
    is_known = data is not None and not data.dtype.hasobject
    found = sha256_hex(np.ascontiguousarray(data).tobytes()) if is_known else type(value).__name__
    return "array", str(value.dtype), tuple(map(str, value.shape)), found
