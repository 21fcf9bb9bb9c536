"""Trees of avals: what the specs of the manifest describe, and what `like:` names an example of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import jax
import numpy as np
from jax.sharding import NamedSharding

from aotbuild.errors import TraceRefused
from aotbuild.format.aval import Aval
from aotbuild.format.wrap import NnxJit, Wrap, mark
from aotbuild.manifest import ArgSpec, DictSpec, LeafSpec, LikeSpec, ListSpec, NoneSpec, TupleSpec
from aotbuild.worker import private as jax_private
from aotbuild.worker.function import resolve
from aotbuild.worker.imports import traced_with
from aotbuild.worker.leaves import is_key_dtype, layout_order, tree_of
from aotbuild.worker.user_errors import is_set_mesh, shorten, user_traceback

Dims = Callable[[str], Any]

_EXPECTED = (
    "Expected arrays, jax.ShapeDtypeStructs, a tree of them, or a function of the dims and static "
    "arguments that returns one."
)
_STATIC_LEAF = (
    "jax.jit takes no such argument. If your calls pass it, set wrap: eqx.filter_jit, which keeps "
    "such leaves static; else pass the arrays only (equinox: eqx.filter(module, eqx.is_array)), "
    "and the rest under static:."
)
_RUN = (
    "Where a function needs real values, or sets a mesh, like_run: true in the spec runs it for "
    "real."
)
# numpy's kinds of text, objects and times, which are no arrays to jax.
_NO_ARRAYS = frozenset("OSUMm")
_ARRAY = object()
# The names of the memory that arrays are in by default, on all versions of jax and platforms.
DEVICE_MEMORY = (None, "device", "unpinned_host")


def make_avals(
    spec: ArgSpec,
    role: str,
    symbolic: Dims | None = None,
    wrap: Wrap | None = None,
    *,
    is_sharded: bool = False,
) -> Any:
    """Return the pytree of `jax.ShapeDtypeStruct` that a spec describes.

    `symbolic` makes a symbolic dim of an expression. Leaves of `like:` that are static under
    `wrap` stay as they are. `is_sharded` says that the manifest shards arguments: then shardings
    that `like:` brings are not looked at. TraceRefused begins with `role`.
    """

    def inner(item: ArgSpec, step: str) -> Any:
        return make_avals(item, f"{role}{step}", symbolic, wrap, is_sharded=is_sharded)

    match spec:
        case LeafSpec():
            return _aval_of(spec, role, symbolic)
        case LikeSpec():
            return _like_tree(spec, role, symbolic, wrap, is_sharded)
        case ListSpec(items):
            return [inner(item, f"[{i}]") for i, item in enumerate(items)]
        case TupleSpec(items):
            return tuple(inner(item, f"[{i}]") for i, item in enumerate(items))
        case DictSpec(items):
            return {key: inner(item, f".{key}") for key, item in items}
        case NoneSpec():
            return None


def _aval_of(spec: LeafSpec, role: str, symbolic: Dims | None) -> Any:
    shape = tuple(symbolic(d) if symbolic and isinstance(d, str) else d for d in spec.shape)
    _check_x64(spec.dtype, role)
    dtype = jax_private.dtype_of(spec.dtype)
    return jax.ShapeDtypeStruct(shape, dtype, weak_type=spec.weak_type)


def _keeps_explicit_x64() -> bool:
    mode = getattr(jax.config, "jax_explicit_x64_dtypes", None)
    return getattr(mode, "name", "") == "ALLOW"


def _check_x64(dtype: str, role: str) -> None:
    if not Aval((), dtype).needs_x64 or jax.config.jax_enable_x64:
        return
    msg = f"{role}: dtype {dtype} needs 64-bit mode; set config: {{jax_enable_x64: true}}, or use "
    msg += "the 32-bit dtype"
    if _keeps_explicit_x64():
        msg += (
            "\nUnder jax_explicit_x64_dtypes: allow the two make other programs than yours. "
            "Give such arguments in 32 bits, and convert them inside the function."
        )
    raise TraceRefused(msg)


# --- like: ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Parts:
    """A tree taken apart: `leaves` has avals of its arrays, and everything else as it was."""

    treedef: Any
    paths: tuple[str, ...]
    leaves: tuple[Any, ...]


# What functions returned in this process, so that each runs once, and equal static data stays equal
# where it has no `==` of its own.
_known: dict[tuple[str, ...], _Parts] = {}


def _like_tree(
    spec: LikeSpec, role: str, symbolic: Dims | None, wrap: Wrap | None, is_sharded: bool
) -> Any:
    """Return the tree that `like:` names, with a `jax.ShapeDtypeStruct` for each array.

    Leaves that are static under `wrap` stay as they are, and its Variables are shared as they were.
    TraceRefused begins with `role`.
    """
    where = f"{role}: like: {spec.ref}"
    is_static = wrap.is_static if wrap else None
    parts = _parts(spec, role, where, symbolic, wrap)
    pairs = zip(parts.paths, parts.leaves, strict=True)
    leaves = []
    for path, leaf in pairs:
        if not is_sharded:
            _check_sharding(leaf, f"{where}{path}")
        leaves.append(_leaf(leaf, f"{where}{path}", is_static))
    tree = tree_of(parts.treedef, _as_jit_takes(leaves, parts.paths, where), where)
    return wrap.restore((tree,))[0] if wrap else tree


def structure_anew(spec: LikeSpec, role: str) -> Any:
    """Return the treedef of what `like:` names, made anew as in another process."""
    found = _found(spec, role)
    if not _is_function(found):
        return jax.tree.structure(found)
    return _run(found, dict(spec.values), f"{role}: like: {spec.ref}", None).treedef


def _found(spec: LikeSpec, role: str) -> Any:
    found = resolve(spec.ref, role)
    return getattr(found, "__aotbuild_source__", found)


def _parts(
    spec: LikeSpec, role: str, where: str, symbolic: Dims | None, wrap: Wrap | None
) -> _Parts:
    found = _found(spec, role)
    if not _is_function(found):
        _check_object(found, spec, where)
        return _abstract(_taken_apart(found, wrap), where)
    options = (spec.run, spec.values, traced_with(()), type(wrap).__name__)
    key = (spec.ref, *map(repr, options))
    symbols = [item for item in spec.values if symbolic and _is_symbol(item, spec)]
    if not symbols and key in _known:
        return _known[key]
    if symbolic and symbols:
        if spec.run:
            _refuse_symbols(symbols, where)
        made = {name: symbolic(text) for name, text in symbols}
        return _trace(found, {**dict(spec.values), **made}, where, wrap)
    _known[key] = (_run if spec.run else _trace)(found, dict(spec.values), where, wrap)
    return _known[key]


def _is_symbol(item: tuple[str, Any], spec: LikeSpec) -> bool:
    return item[0] in spec.dims and isinstance(item[1], str)


def _refuse_symbols(symbols: list[tuple[str, Any]], where: str) -> NoReturn:
    listed = ", ".join(f"{name}={text}" for name, text in symbols)
    msg = (
        f"{where}: like_run needs sizes, and the portable form has symbols here: {listed}\n"
        "Leave these dims out of export: dims, or out of this spec."
    )
    raise TraceRefused(msg)


def _check_object(found: Any, spec: LikeSpec, where: str) -> None:
    """Refuse options that only a function can have."""
    options = [("like_run", spec.run), ("dims", spec.dims), ("static", spec.static)]
    given = [name for name, value in options if value]
    if given:
        listed = " and ".join(given)
        msg = f"{where} is a {_kind(found)}, not a function: {listed} cannot apply; leave them out"
        raise TraceRefused(msg)


def _run(function: Any, values: dict[str, Any], where: str, wrap: Wrap | None) -> _Parts:
    try:
        parts = _taken_apart(function(**values), wrap)
        jax.block_until_ready(parts.leaves)
    except BaseException as err:  # user code may raise anything
        taken = ", ".join(f"{name}={shorten(repr(value))}" for name, value in values.items())
        msg = f"{where} raised; it was called with ({taken})\n{user_traceback(err)}"
        raise TraceRefused(msg) from err
    return _abstract(parts, where)


def _trace(function: Any, values: dict[str, Any], where: str, wrap: Wrap | None) -> _Parts:
    """Call a function under `jax.eval_shape`, and carry past it what is no array."""
    aside: list[_Parts] = []

    def arrays() -> list[Any]:
        parts = _taken_apart(function(**values), wrap)
        rest = tuple(_ARRAY if _is_array(leaf) else leaf for leaf in parts.leaves)
        aside.append(replace(parts, leaves=rest))
        return [leaf for leaf in parts.leaves if _is_array(leaf)]

    try:
        avals = iter(jax.eval_shape(arrays))
    except BaseException as err:  # user code may raise anything
        needs_run = isinstance(err, jax.errors.JAXTypeError) or is_set_mesh(err)
        run = f"\n{_RUN}" if needs_run else ""
        msg = f"{where} gave no tree of arrays\n{user_traceback(err)}\n{_EXPECTED}{run}"
        raise TraceRefused(msg) from err
    (parts,) = aside
    leaves = tuple(next(avals) if leaf is _ARRAY else leaf for leaf in parts.leaves)
    return replace(parts, leaves=leaves)


def _taken_apart(tree: Any, wrap: Wrap | None) -> _Parts:
    """Return a tree's parts; a Variable that is in it twice is a marker then."""
    tree = mark(wrap, (tree,))[0] if isinstance(wrap, NnxJit) else tree
    pairs, treedef = jax.tree_util.tree_flatten_with_path(tree)
    paths = tuple(jax.tree_util.keystr(path) for path, _ in pairs)
    leaves = tuple(leaf for _, leaf in pairs)
    return _Parts(treedef, paths, leaves)


def _abstract(parts: _Parts, where: str) -> _Parts:
    """Return a tree's parts with avals for its arrays, which are not kept."""
    arrays = []
    for path, leaf in zip(parts.paths, parts.leaves, strict=True):
        if _is_array(leaf):
            _check_placement(leaf, f"{where}{path}")
            _check_dtype(leaf, f"{where}{path}")
            arrays.append(leaf)
    avals = iter(jax.eval_shape(lambda arrays: arrays, arrays))
    leaves = tuple(next(avals) if _is_array(leaf) else leaf for leaf in parts.leaves)
    return replace(parts, leaves=leaves)


def _leaf(leaf: Any, place: str, is_static: Callable[[Any], bool] | None) -> Any:
    if isinstance(leaf, jax.ShapeDtypeStruct):
        _check_placement(leaf, place)
        _check_dtype(leaf, place)
        return leaf
    if is_static is not None and is_static(leaf):
        return leaf
    if isinstance(leaf, bool | int | float | complex):
        return jax.eval_shape(lambda number: number, leaf)
    if jax_private.is_mutable_ref(leaf):
        msg = f"{place} is a mutable array\n{_EXPECTED}"
        raise TraceRefused(msg)
    msg = f"{place} is a {_kind(leaf)}\n{_EXPECTED}\n{_STATIC_LEAF}"
    raise TraceRefused(msg)


def _as_jit_takes(leaves: Sequence[Any], paths: Sequence[str], where: str) -> list[Any]:
    """Return leaves with avals as `jax.jit` takes them: 64 bits become 32 without x64."""
    places = [at for at, leaf in enumerate(leaves) if isinstance(leaf, jax.ShapeDtypeStruct)]
    taken, found = jax.eval_shape(lambda *avals: avals, *(leaves[at] for at in places)), [*leaves]
    for at, aval in zip(places, taken, strict=True):
        if not is_key_dtype(aval.dtype):
            _check_x64(str(aval.dtype), f"{where}{paths[at]}")
        found[at] = jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)
    return found


def _check_sharding(leaf: Any, place: str) -> None:
    sharding = getattr(leaf, "sharding", None)
    if isinstance(sharding, NamedSharding) and not sharding.is_fully_replicated:
        msg = f"{place} is sharded as {sharding.spec}, and the manifest shards no argument\n"
        msg += "Give the mesh under mesh:, and the arguments' shardings under in_shardings:."
        raise TraceRefused(msg)


def _check_dtype(leaf: Any, place: str) -> None:
    """Refuse a byte order that is not the machine's, which `jax.jit` refuses."""
    if not getattr(leaf.dtype, "isnative", True):
        msg = f"{place} has dtype {leaf.dtype.str}: jax takes arrays in native byte order only\n"
        msg += "Convert it: array.astype(array.dtype.newbyteorder('='))."
        raise TraceRefused(msg)


def _check_placement(leaf: Any, place: str) -> None:
    """Refuse an array or aval in a memory, or with a layout, that no argument can have."""
    kind = getattr(getattr(leaf, "sharding", None), "memory_kind", None)
    if kind not in DEVICE_MEMORY:
        msg = f"{place} is in memory of kind {kind}; arguments are in the device's own memory\n"
        msg += "Name an array without a memory kind here, and move it inside the function."
        raise TraceRefused(msg)
    if order := layout_order(leaf):
        msg = f"{place} has a layout, major_to_minor {order}; arguments have jax's own\n"
        msg += "Name an array without a layout here, and transpose it inside the function."
        raise TraceRefused(msg)


def _is_array(leaf: Any) -> bool:
    if not isinstance(leaf, jax.Array | np.ndarray | np.generic):
        return False
    return getattr(leaf.dtype, "kind", "") not in _NO_ARRAYS and not jax_private.is_mutable_ref(
        leaf
    )


def _is_function(value: Any) -> bool:
    """Return whether a value is called, and is not a pytree, as a module with a `__call__` is."""
    is_tree = not isinstance(value, type) and jax.tree.structure(value) != jax.tree.structure(0)
    return callable(value) and not is_tree


def _kind(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"
