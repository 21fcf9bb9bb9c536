"""Functions under another library's jit, which means more than `jax.jit`.

They are recognized by the name of their wrapper's type, so that neither library is imported here.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from aotbuild.errors import TraceRefused

# module:qualname of a wrapper's type, and what the wrapper does that `jax.jit` does not.
# Tried with flax 0.12.8 and 0.12.12, and with equinox 0.13.8.
_NNX = "flax.nnx.transforms.compilation"
_WRITES_BACK = "nnx.jit writes what it changes in a module back into the caller's object"
_MEANINGS = {
    f"{_NNX}:JitWrapped": _WRITES_BACK,
    f"{_NNX}:SimpleJitWrapped": _WRITES_BACK,
    f"{_NNX}:JitPartialWrapped": _WRITES_BACK,
    f"{_NNX}:SimpleJitPartialWrapped": _WRITES_BACK,
    "equinox._jit:_JitWrapper": "eqx.filter_jit takes every leaf that is no array as static",
}


def check_wrapper(name: str, call: str, function: Any) -> None:
    """Refuse a function whose own jit means more than the `jax.jit` that it is compiled with."""
    for part in _parts(function):
        meaning = _MEANINGS.get(f"{type(part).__module__}:{type(part).__qualname__}")
        if meaning:
            msg = (
                f"functions.{name}.call: {call} would not do what it does in Python: {meaning}\n"
                "Name a function that takes and returns arrays and trees of them (flax: nnx.split "
                "before it and nnx.merge inside; equinox: eqx.partition and eqx.combine), under "
                "jax.jit or no decorator."
            )
            raise TraceRefused(msg)


def _parts(function: Any) -> Iterator[Any]:
    """Yield a callable and the callables that it wraps, outermost first.

    What `jax.jit` wraps is not looked at: there, the inner function has no more effects than jit's.
    """
    seen: set[int] = set()
    while function is not None and id(function) not in seen and not _is_jit(function):
        seen.add(id(function))
        yield function
        if isinstance(function, functools.partial) or type(function).__name__ == "Partial":
            function = function.func
        else:
            function = getattr(function, "__wrapped__", None)


def _is_jit(function: Any) -> bool:
    return type(function).__module__.startswith("jaxlib")
