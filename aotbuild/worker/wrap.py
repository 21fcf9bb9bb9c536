"""Functions under `nnx.jit` and `eqx.filter_jit`: traced with what these mean.

A function is traced without its own jit. The wrap, `format.wrap`, takes the arguments apart as
calls do.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from aotbuild.build.jobs import Job
from aotbuild.errors import TraceRefused
from aotbuild.format.nnx_outputs import WriteBack
from aotbuild.format.tree import register_markers
from aotbuild.format.wrap import FILTER_JIT, FilterJit, NnxJit, Wrap, mark
from aotbuild.worker.decorator import Decorator, read_decorator
from aotbuild.worker.leaves import same_structure
from aotbuild.worker.nnx_call import NnxCall, is_object, is_variable

_SHOWN = 3


@dataclass(frozen=True)
class Wrapped:
    """A function without its own jit, and the wrap that a job traces it under; None without one.

    `decorator` is the function's own jit.
    """

    function: Any
    decorator: Decorator
    name: str = ""
    wrap: Wrap | None = None

    @property
    def donated(self) -> tuple[str, ...]:
        """The arguments that calls donate because the decorator says so."""
        return self.decorator.donated if self.wrap else ()


def unwrap(job: Job, function: Any) -> Wrapped:
    """Return a function and its wrap: the manifest's, or that of the function's own jit."""
    found, wanted = read_decorator(job, function), job.function.wrap
    if found.wrap and wanted and found.wrap != wanted:
        msg = (
            f"functions.{job.name}.wrap: the manifest says {wanted}, but {job.call} is decorated "
            f"with {found.wrap}\nRemove wrap: from the manifest, or change the decorator."
        )
        raise TraceRefused(msg)
    name = wanted or found.wrap
    if not name:
        return Wrapped(found.function, found)
    if job.function.pad:
        msg = f"functions.{job.name}.pad: arguments under {name} cannot be padded; remove pad:"
        raise TraceRefused(msg)
    return Wrapped(found.function, found, name, _make_wrap(name))


def _make_wrap(name: str) -> Wrap:
    register_markers(jax.tree_util.register_pytree_node)
    flatten = jax.tree_util.tree_flatten
    if name == FILTER_JIT:
        kinds = (jax.Array, np.ndarray, np.generic, jax.ShapeDtypeStruct)
        return FilterJit(flatten, lambda x: isinstance(x, kinds))
    return nnx_jit()


def nnx_jit() -> NnxJit:
    """Return the wrap of `nnx.jit`."""
    register_markers(jax.tree_util.register_pytree_node)
    return NnxJit(jax.tree_util.tree_flatten, is_variable)


# --- tracing ------------------------------------------------------------------------------------


def marked(wrap: Wrap | None, named: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments in canonical order by name, with markers for what is no array."""
    values = mark(wrap, tuple(named.values())) if wrap else named.values()
    return dict(zip(named, values, strict=True))


def traced_function(
    job: Job, wrapped: Wrapped, names: Sequence[str], call: Callable[[tuple[Any, ...]], Any]
) -> Callable[..., Any]:
    """Return what `jax.jit` traces: a function of the values of a call, with markers in and out.

    `call` calls the user's function with values without markers; `names` are those of the values.
    """
    wrap, only_values = wrapped.wrap or nnx_jit(), wrapped.decorator.only_values
    if isinstance(wrap, NnxJit):
        return NnxCall(job.call, wrap, call, names, job.function.donate, only_values)

    def filtered(*values: Any) -> Any:
        return mark(wrap, (call(wrap.restore(values)),))[0]

    return filtered


def result_of(wrap: Wrap | None, arguments: Mapping[str, Any], result: Any) -> Any:
    """Return what `feedback:` may take from a result: under `nnx.jit`, arguments as they are then.

    `arguments` are trees with markers, in canonical order; `result` is what was traced returns.
    """
    if not isinstance(wrap, NnxJit) or not has_flax_objects([*arguments.values()]):
        return result
    from flax import nnx

    # A copy: Variables are changed in place.
    values = wrap.restore(jax.tree.map(lambda leaf: leaf, tuple(arguments.values())))
    units, _ = wrap.flatten(values, wrap.is_variable)
    WriteBack(wrap, nnx.data, nnx.static)(result, units, values)
    after = dict(zip(arguments, mark(wrap, values), strict=True))
    changed = {n: tree for n, tree in after.items() if not _is_same(tree, arguments[n])}
    return {"result": result[0], **changed}


def _is_same(one: Any, other: Any) -> bool:
    (leaves, tree), (others, other_tree) = jax.tree.flatten(one), jax.tree.flatten(other)
    return same_structure(tree, other_tree) and all(map(operator.is_, leaves, others))


def changes(function: Callable[..., Any], values: tuple[Any, ...], names: Sequence[str]) -> str:
    """Return which Variables a function under `nnx.jit` changes, or the like; empty if it does not.

    `function` is what `traced_function` returns. It is traced, and raises nothing.
    """
    try:
        _, updates, _, *attributes = jax.eval_shape(function, *values)
    except TraceRefused as err:
        why = str(err).partition(": ")[2].partition("\n")[0]
        return f"an argument ({why})"
    except Exception:  # noqa: BLE001 (user code; it went well under jax.jit)
        return ""
    if attributes:
        return "attributes of an argument"
    units = jax.tree_util.tree_flatten_with_path(values, is_leaf=is_variable)[0]
    paths = [units[position][0] for position in updates]
    places = [f"{names[path[0].idx]}{jax.tree_util.keystr(path[1:])}" for path in paths]
    more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
    return ", ".join(places[:_SHOWN]) + more


def has_flax_objects(tree: Any, is_one: Callable[[Any], bool] = is_object) -> bool:
    """Return whether an object of flax is in a tree."""
    if "flax.nnx" not in sys.modules:
        return False
    return any(map(is_one, jax.tree.leaves(tree, is_leaf=is_one)))
