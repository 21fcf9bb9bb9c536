"""Functions under `nnx.jit` and `eqx.filter_jit`: traced with what these mean.

A function is traced without its own jit. The wrap, `format.wrap`, takes the arguments apart as
calls do.
"""

from __future__ import annotations

import functools
import inspect
import operator
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from aotbuild.build.jobs import Job
from aotbuild.errors import TraceRefused
from aotbuild.format.tree import register_markers
from aotbuild.format.wrap import FILTER_JIT, NNX_JIT, FilterJit, NnxJit, Wrap, WriteBack, mark
from aotbuild.worker import private as jax_private
from aotbuild.worker.leaves import same_structure
from aotbuild.worker.nnx_call import NnxCall, is_object, is_variable
from aotbuild.worker.specs import DEVICE_MEMORY

# module:qualname of the types of wrappers. Tried with flax 0.12.8 and 0.12.12, and equinox 0.13.8;
# so were the attributes `jitted_fn`, `donate_first` and `donate_rest`, and `_cached`, which are
# what jax.jit made inside, and what equinox donates.
_NNX = "flax.nnx.transforms.compilation"
_WRAPPERS = {
    f"{_NNX}:JitWrapped": NNX_JIT,
    f"{_NNX}:SimpleJitWrapped": NNX_JIT,
    f"{_NNX}:JitPartialWrapped": NNX_JIT,
    f"{_NNX}:SimpleJitPartialWrapped": NNX_JIT,
    "equinox._jit:_JitWrapper": FILTER_JIT,
}

_SHARDINGS = "Write them in the manifest, with mesh:, in_shardings: and out_shardings:."
_DEVICE = "Remove them from the decorator: targets: says where the function runs."
_LAYOUTS = "Remove them from the decorator, and transpose inside the function."
_MEMORY = "Remove them from the decorator, and move arrays inside the function."
_OPTIONS = "Write them in the manifest, under compiler_options:."


@dataclass(frozen=True)
class Decorator:
    """A function's own jit; `wrap` is empty for `jax.jit`, and where there is none.

    `function` is the one without it, or with it, where it is inside of another decorator. It has
    its `jax.jit`, unless that has compiler options.
    `donated` are names of arguments. `keep_unused` is whether `jax.jit` is told to.
    """

    wrap: str
    function: Any
    donated: tuple[str, ...] = ()
    keep_unused: bool = False


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
    def options(self) -> dict[str, Any]:
        """What the decorator says of how calls are made, as keys of the manifest."""
        found = {"donate": self.decorator.donated, "keep_unused": self.decorator.keep_unused}
        return {key: value for key, value in found.items() if value}


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
    return NnxJit(flatten, is_variable)


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
    wrap = wrapped.wrap
    assert wrap is not None, "other functions are traced as they are"
    if isinstance(wrap, NnxJit):
        return NnxCall(job.call, wrap, call, names, job.function.donate)

    def filtered(*values: Any) -> Any:
        return mark(wrap, (call(wrap.restore(values)),))[0]

    return filtered


def result_of(wrap: Wrap | None, arguments: Mapping[str, Any], result: Any) -> Any:
    """Return what `feedback:` may take from a result: under `nnx.jit`, arguments as they are then.

    `arguments` are trees with markers, in canonical order; `result` is what was traced returns.
    """
    if not isinstance(wrap, NnxJit) or not has_flax_objects([*arguments.values()]):
        return result
    # A copy: Variables are changed in place.
    values = wrap.restore(jax.tree.map(lambda leaf: leaf, tuple(arguments.values())))
    units, _ = wrap.flatten(values, wrap.is_variable)
    WriteBack(wrap)(result, units, values)
    after = dict(zip(arguments, mark(wrap, values), strict=True))
    changed = {n: tree for n, tree in after.items() if not _is_same(tree, arguments[n])}
    return {"result": result[0], **changed}


def _is_same(one: Any, other: Any) -> bool:
    (leaves, tree), (others, other_tree) = jax.tree.flatten(one), jax.tree.flatten(other)
    return same_structure(tree, other_tree) and all(map(operator.is_, leaves, others))


def has_flax_objects(tree: Any) -> bool:
    """Return whether an object of flax is in a tree."""
    if "flax.nnx" not in sys.modules:
        return False
    return any(map(is_object, jax.tree.leaves(tree, is_leaf=is_object)))


# --- the function's own jit ----------------------------------------------------------------------


def read_decorator(job: Job, function: Any) -> Decorator:
    """Return the jit that a function is decorated with; TraceRefused if an option has no effect.

    What `jax.jit` wraps is not looked at: there, the inner function has no more effects than jit's.
    """
    parts = [part for part in _inside(function) if _type_name(part) in _WRAPPERS]
    if not parts:
        return _read_jit(job, function)
    part = parts[0]
    wrap = _WRAPPERS[_type_name(part)]
    _check_options(job, part, wrap)
    donated = _donated(job, part)
    if part is function:
        return Decorator(wrap, part.__wrapped__, donated)
    return Decorator(wrap, function, donated)


def _inside(function: Any) -> Iterator[Any]:
    """Yield the callables that a callable wraps, outermost first, itself included, to `jax.jit`."""
    seen: set[int] = set()
    while function is not None and id(function) not in seen:
        seen.add(id(function))
        yield function
        if jax_private.is_jitted(function):
            return
        if isinstance(function, functools.partial) or type(function).__name__ == "Partial":
            function = function.func
        else:
            function = getattr(function, "__wrapped__", None)


def _type_name(value: Any) -> str:
    return f"{type(value).__module__}:{type(value).__qualname__}"


# --- options ------------------------------------------------------------------------------------


def _check_options(job: Job, part: Any, wrap: str) -> None:
    """Refuse options of `nnx.jit` or `eqx.filter_jit` that the manifest has to have."""
    options = jax_private.jit_options(_jitted(part))
    static = _named(part, options, "static") if wrap == NNX_JIT else []
    traced = [name for name in static if name in job.args or name in job.kwargs]
    if traced:
        msg = (
            f"functions.{job.name}: {job.call} is decorated with {wrap}, where "
            f"{', '.join(traced)} is static, and the manifest has a spec for it\n"
            f"Write its values under static: {{{traced[0]}: [...]}} instead."
        )
        raise TraceRefused(msg)
    _refuse(job, wrap, options, is_inside=False)


def _read_jit(job: Job, function: Any) -> Decorator:
    """Return the `jax.jit` that a function is decorated with; TraceRefused as `_refuse` has it.

    What is traced calls it: its shardings are constraints there, and its static arguments are
    those of the manifest.
    """
    jitted = getattr(function, "__func__", function)
    options = jax_private.jit_options(jitted)
    if not options:
        return Decorator("", function)
    _refuse(job, "jax.jit", options, is_inside=True)
    inside = _without_jit(function) if options.get("compiler_options_kvs") else function
    donated = _donated(job, jitted)
    return Decorator("", inside, donated, keep_unused=bool(options.get("keep_unused")))


def _refuse(job: Job, wrap: str, options: dict[str, Any], *, is_inside: bool) -> None:
    """Raise TraceRefused for an option of a jit that decides what is compiled or where.

    `is_inside` is whether what is traced calls the jit.
    """
    model = job.function
    shardings = [*options.get("in_shardings_leaves", ()), *options.get("out_shardings_leaves", ())]
    layouts = [*options.get("in_layouts_leaves", ()), *options.get("out_layouts_leaves", ())]
    kinds = [getattr(each, "memory_kind", None) for each in shardings]
    problems = (
        (any(layouts), "layouts", _LAYOUTS),
        (any(kind not in DEVICE_MEMORY for kind in kinds), "memory kinds", _MEMORY),
        (
            any(map(_is_given, shardings)) and not (is_inside or model.mesh),
            "in_shardings and out_shardings",
            _SHARDINGS,
        ),
        (options.get("device") or options.get("backend"), "device and backend", _DEVICE),
        (
            options.get("compiler_options_kvs") and not model.compiler_options,
            "compiler_options",
            _OPTIONS,
        ),
    )
    for found, what, remedy in problems:
        if found:
            msg = (
                f"functions.{job.name}: {job.call} is decorated with {wrap}, whose {what} "
                f"aotbuild does not read\n{remedy}"
            )
            raise TraceRefused(msg)


def _without_jit(function: Any) -> Any:
    """Return a function, or a method, without its `jax.jit`.

    No jit inside another may have compiler options; those of the manifest count.
    """
    if isinstance(function, types.MethodType):
        return types.MethodType(_without_jit(function.__func__), function.__self__)
    return function.__wrapped__


def _is_given(sharding: Any) -> bool:
    return sharding is not None and type(sharding).__name__ != "UnspecifiedValue"


def _donated(job: Job, part: Any) -> tuple[str, ...]:
    """Return the arguments whose buffers a decorator donates, as far as the manifest has them."""
    given = [*job.args, *job.kwargs]
    if hasattr(part, "donate_rest"):
        first = next(iter(inspect.signature(part).parameters), None)
        names = [n for n in given if (part.donate_first if n == first else part.donate_rest)]
    else:
        names = _named(part, jax_private.jit_options(_jitted(part)), "donate")
    return tuple(name for name in given if name in names)


def _named(part: Any, options: dict[str, Any], kind: str) -> list[str]:
    """Return the names of the arguments of a kind, `static` or `donate`."""
    places: Sequence[int] = options.get(f"{kind}_argnums", ())
    if not places:
        return [*options.get(f"{kind}_argnames", ())]
    names = [*inspect.signature(part).parameters]
    found = [names[place] for place in places if -len(names) <= place < len(names)]
    return [*options[f"{kind}_argnames"], *found]


def _jitted(part: Any) -> Any:
    """Return what `jax.jit` made inside of a wrapper."""
    return getattr(part, "jitted_fn", None) or getattr(part, "_cached", part)
