"""A function's own jit: recognized by the name of its type, with the options that it was given.

No library is imported for it.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from aotbuild.build.jobs import Job
from aotbuild.errors import TraceRefused
from aotbuild.format.wrap import FILTER_JIT, NNX_JIT
from aotbuild.worker import private as jax_private

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
_OPTIONS = "Write them in the manifest, under compiler_options:."


@dataclass(frozen=True)
class Decorator:
    """A function's own jit; `wrap` is empty for `jax.jit`, and where there is none.

    `function` is the one without it, or with it, where it is inside of another decorator. It has
    its `jax.jit`, unless that has compiler options.
    `donated` are names of arguments. `only_values` is whether it keeps values of Variables only.
    """

    wrap: str
    function: Any
    donated: tuple[str, ...] = ()
    only_values: bool = False


def read_decorator(job: Job, function: Any) -> Decorator:
    """Return the jit that a function is decorated with; TraceRefused if an option has no effect.

    What `jax.jit` wraps is not looked at: there, the inner function has no more effects than jit's.
    """
    *outer, last = _inside(function)
    parts = [part for part in (*outer, last) if _type_name(part) in _WRAPPERS]
    if not parts:
        donated = _donated(job, last) if not outer else ()
        return Decorator("", _without_options(job, function), donated)
    part = parts[0]
    wrap = _WRAPPERS[_type_name(part)]
    _check_options(job, part, wrap)
    donated = _donated(job, part)
    if part is function:
        only_values = type(part).__name__.startswith("Simple")
        return Decorator(wrap, part.__wrapped__, donated, only_values)
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
    """Refuse options that decide what is compiled, and that the manifest does not have."""
    options, model = jax_private.jit_options(_jitted(part)), job.function
    static = _named(part, options, "static") if wrap == NNX_JIT else []
    traced = [name for name in static if name in job.args or name in job.kwargs]
    if traced:
        msg = (
            f"functions.{job.name}: {job.call} is decorated with {wrap}, where "
            f"{', '.join(traced)} is static, and the manifest has a spec for it\n"
            f"Write its values under static: {{{traced[0]}: [...]}} instead."
        )
        raise TraceRefused(msg)
    has_device = options.get("device") or options.get("backend")
    has_options = options.get("compiler_options_kvs") and not model.compiler_options
    problems = (
        (_shardings(options) and not model.mesh, "in_shardings and out_shardings", _SHARDINGS),
        (has_device, "device and backend", _DEVICE),
        (has_options, "compiler_options", _OPTIONS),
    )
    for found, what, remedy in problems:
        if found:
            msg = (
                f"functions.{job.name}: {job.call} is decorated with {wrap}, whose {what} "
                f"aotbuild does not read\n{remedy}"
            )
            raise TraceRefused(msg)


def _without_options(job: Job, function: Any) -> Any:
    """Return a function without its `jax.jit` if that has compiler options, which none inside may.

    They count if the manifest has some: as for the other wrappers, those decide. A method may have
    such a jit, too.
    """
    if isinstance(function, types.MethodType):
        inside = _without_options(job, function.__func__)
        is_same = inside is function.__func__
        return function if is_same else types.MethodType(inside, function.__self__)
    if not jax_private.jit_options(function).get("compiler_options_kvs"):
        return function
    if not job.function.compiler_options:
        msg = (
            f"functions.{job.name}: {job.call} is decorated with jax.jit, whose compiler_options "
            f"aotbuild does not read\n{_OPTIONS}"
        )
        raise TraceRefused(msg)
    return function.__wrapped__


def _shardings(options: dict[str, Any]) -> bool:
    leaves = (*options.get("in_shardings_leaves", ()), *options.get("out_shardings_leaves", ()))
    return any(leaf is not None and type(leaf).__name__ != "UnspecifiedValue" for leaf in leaves)


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
