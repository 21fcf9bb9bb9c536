"""How a function's own jit is recognized: by the name of its type, through what is around it."""

from __future__ import annotations

import functools
import types
from types import SimpleNamespace
from typing import Any

import jax
import pytest

from aotbuild.errors import TraceRefused
from aotbuild.worker.wrap import Decorator, Wrapped, unwrap


def function(x: Any) -> Any:
    return x


class JitWrapped:
    """What `flax.nnx.jit` returns, as far as it is looked at."""

    def __init__(self, inner: Any) -> None:
        functools.update_wrapper(self, inner)

    def __call__(self, *args: Any) -> Any:
        return self.__wrapped__(*args)  # type: ignore[attr-defined]


class _JitWrapper(JitWrapped):
    """The same for `equinox.filter_jit`."""


JitWrapped.__module__ = "flax.nnx.transforms.compilation"
_JitWrapper.__module__ = "equinox._jit"
_JitWrapper.__qualname__ = "_JitWrapper"


def timed(inner: Any) -> Any:
    @functools.wraps(inner)
    def call(*args: Any) -> Any:
        return inner(*args)

    return call


def wrapped(found: Any, wrap: str | None = None, **options: Any) -> Wrapped:
    described = SimpleNamespace(
        wrap=wrap, pad=options.get("pad", {}), compiler_options=options.get("compiler_options", {})
    )
    job = SimpleNamespace(name="f", call="m:f", function=described, args=["x"], kwargs={})
    return unwrap(job, found)  # type: ignore[arg-type]


def test_a_plain_function_has_no_wrap() -> None:
    assert wrapped(function) == Wrapped(function, Decorator("", function))
    assert wrapped(jax.jit(function)).name == ""


def test_compiler_options_of_a_plain_jit_are_those_of_the_manifest() -> None:
    """A jit inside of another one may have none, and the build puts one around it."""
    found = jax.jit(function, compiler_options={"xla_cpu_enable_fast_math": False})
    options = {"xla_cpu_enable_fast_math": False}
    assert wrapped(found, compiler_options=options).function is function
    with pytest.raises(TraceRefused, match="under compiler_options:"):
        wrapped(found)
    method, plain = types.MethodType(found, 3), types.MethodType(jax.jit(function), 3)
    taken = wrapped(method, compiler_options=options).function
    assert (taken.__func__, taken.__self__) == (function, 3)
    assert wrapped(plain).function is plain
    with pytest.raises(TraceRefused, match="under compiler_options:"):
        wrapped(method)


def test_a_functions_own_jit_is_taken_off() -> None:
    for made, name in ((JitWrapped, "nnx.jit"), (_JitWrapper, "eqx.filter_jit")):
        found = wrapped(made(function))
        assert (found.function, found.name, found.decorator.wrap) == (function, name, name)


@pytest.mark.parametrize("around", [timed, functools.partial, lambda f: timed(timed(f))])
def test_it_is_seen_inside_of_others_and_stays_there(around: Any) -> None:
    outer = around(JitWrapped(function))
    found = wrapped(outer)
    assert (found.function, found.name) == (outer, "nnx.jit")


def test_under_jax_jit_it_means_no_more_than_that() -> None:
    assert wrapped(jax.jit(JitWrapped(function))).name == ""


def test_the_manifest_says_it_for_others() -> None:
    found = wrapped(function, "eqx.filter_jit")
    assert (found.function, found.name, found.decorator.wrap) == (function, "eqx.filter_jit", "")
    assert wrapped(JitWrapped(function), "nnx.jit").name == "nnx.jit"


def test_the_manifest_cannot_say_another() -> None:
    with pytest.raises(TraceRefused, match=r"functions\.f\.wrap: the manifest says eqx.filter_jit"):
        wrapped(JitWrapped(function), "eqx.filter_jit")


def test_nothing_under_a_wrap_is_padded() -> None:
    with pytest.raises(TraceRefused, match=r"functions\.f\.pad: arguments under nnx.jit cannot"):
        wrapped(JitWrapped(function), pad={"n": 0})
