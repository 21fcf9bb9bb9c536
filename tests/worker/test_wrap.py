"""How a function's own jit is recognized: by the name of its type, through what is around it."""

from __future__ import annotations

import functools
import inspect
import textwrap
import types
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental.layout import Format, Layout
from support.projects import build, write_project

import aotbuild
from aotbuild.errors import TraceRefused
from aotbuild.worker.wrap import Wrapped, unwrap


def function(x: Any) -> Any:
    return x


class JitWrapped:
    """What `flax.nnx.jit` returns, as far as it is looked at."""

    def __init__(self, inner: Any) -> None:
        functools.update_wrapper(self, inner)

    def __call__(self, *args: Any) -> Any:
        return self.__wrapped__(*args)  # type: ignore[attr-defined]


JitWrapped.__module__ = "flax.nnx.transforms.compilation"


def timed(inner: Any) -> Any:
    @functools.wraps(inner)
    def call(*args: Any) -> Any:
        return inner(*args)

    return call


def wrapped(found: Any, wrap: str | None = None, **options: Any) -> Wrapped:
    described = SimpleNamespace(wrap=wrap, **{"pad": {}, "compiler_options": {}, **options})
    job = SimpleNamespace(name="f", call="m:f", function=described, args=["x"], kwargs={})
    return unwrap(job, found)  # type: ignore[arg-type]


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


ONE = jax.sharding.SingleDeviceSharding(jax.devices()[0])
COLUMNS = Format(Layout((1, 0)), ONE)
# Every option of `jax.jit`: with a value, and what is made of it.
JIT_OPTIONS: dict[str, tuple[Any, str | dict[str, Any]]] = {
    "in_shardings": (COLUMNS, "layouts aotbuild does not read"),
    "out_shardings": (ONE.with_memory_kind("pinned_host"), "memory kinds aotbuild does not read"),
    "static_argnums": (0, {}),  # those of the manifest are compared with the function's parameters
    "static_argnames": ("x", {}),
    "donate_argnums": (0, {"donate": ("x",)}),
    "donate_argnames": ("x", {"donate": ("x",)}),
    "keep_unused": (True, {"keep_unused": True}),
    "device": (jax.devices()[0], "device and backend aotbuild does not read"),
    "backend": ("cpu", "device and backend aotbuild does not read"),
    "inline": (True, {}),  # what is traced calls the jit
    "compiler_options": ({"xla_cpu_enable_fast_math": True}, "compiler_options aotbuild does not"),
}


@pytest.mark.filterwarnings("ignore:backend and device argument on jit:DeprecationWarning")
def test_every_option_of_a_plain_jit_is_used_or_refused() -> None:
    assert {*inspect.signature(jax.jit).parameters} == {"fun", *JIT_OPTIONS}
    for option, (value, expected) in JIT_OPTIONS.items():
        found = jax.jit(function, **{option: value})
        if isinstance(expected, str):
            with pytest.raises(TraceRefused, match=f"decorated with jax.jit, whose {expected}"):
                wrapped(found)
        else:
            assert wrapped(found).options == expected, option
    assert wrapped(jax.jit(function, out_shardings=ONE)).options == {}
    with pytest.raises(TraceRefused, match="whose layouts"):
        wrapped(jax.jit(function, out_shardings=COLUMNS))


@pytest.mark.process
def test_the_portable_form_keeps_weak_types(tmp_path: Path) -> None:
    manifest = "version: 1\npackage: proj\nfallback: portable\ntargets: [portable]\nfunctions:\n"
    manifest += '  f: {call: "proj.m:f", args: [x: "~f32[]"]}\n'
    root = write_project(tmp_path, manifest, m="def f(x):\n    return x * 2, x.astype('int8')\n")
    doubled, cast = aotbuild.load(build(root).folder).f(1.5)
    assert (doubled.weak_type, cast.weak_type, float(doubled)) == (True, False, 3.0)


@pytest.mark.process
def test_calls_donate_what_a_plain_jit_donates(tmp_path: Path) -> None:
    code = """
        import jax

        @jax.jit(donate_argnums=1, keep_unused=True)
        def step(x, state, unused):
            return state + x

        class Model:
            @jax.jit(static_argnums=0, donate_argnums=1)
            def step(self, state):
                return state + 1

        model = Model()
        """
    manifest = """
        version: 1
        package: proj
        functions:
          step: {call: "proj.m:step", args: [x: "f32[]", state: "f32[4]", unused: "f32[8]"]}
          method: {call: "proj.m:model.step", args: [state: "f32[4]"]}
          manifest: {call: "proj.m:model.step", args: [state: "f32[4]"], donate: []}
        """
    root = write_project(tmp_path, textwrap.dedent(manifest), m=textwrap.dedent(code))
    library = aotbuild.load(build(root).folder)
    x, unused = jnp.ones(()), jnp.ones(8)
    for name, around, donates in (
        ("step", (x, unused), True), ("method", (), True), ("manifest", (), False),
    ):  # fmt: skip
        state = jnp.ones(4)
        kernel = getattr(library, name)
        result = kernel(around[0], state, around[1]) if around else kernel(state)
        assert result.tolist() == [2.0] * 4
        assert state.is_deleted() == donates, name


@pytest.mark.parametrize("around", [timed, functools.partial, lambda f: timed(timed(f))])
def test_it_is_seen_inside_of_others_and_stays_there(around: Any) -> None:
    outer = around(JitWrapped(function))
    found = wrapped(outer)
    assert (found.function, found.name) == (outer, "nnx.jit")


def test_under_jax_jit_it_means_no_more_than_that() -> None:
    assert wrapped(jax.jit(JitWrapped(function))).name == ""
