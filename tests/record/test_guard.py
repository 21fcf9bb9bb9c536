"""The guard: what jax is about to trace, lower or compile is raised, logged or counted first."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec
from support.guarded import OTHER, X, new_jit, source
from support.processes import fresh

import aotbuild
from aotbuild.errors import AotbuildError, CompilationForbidden

__all__ = ["source"]  # a fixture

guard = aotbuild.guard


def seen(kind: str) -> int:
    return sum(guard.counts().get(kind, {}).values())


def sharded(x: Any) -> Any:
    mesh = Mesh(np.array(jax.devices()[:1]), ("a",))
    spec = PartitionSpec()
    return jax.jit(jax.shard_map(lambda x: x * 9, mesh=mesh, in_specs=spec, out_specs=spec))(x)


def with_custom_rule(x: Any) -> Any:
    function = jax.custom_vjp(lambda x: x * x)
    function.defvjp(lambda x: (x * x, x), lambda rest, g: (g * rest,))
    return jax.grad(lambda x: jax.jit(function)(x).sum())(x)


def forbidden_then_allowed(call: Callable[[Any], Any], x: Any) -> list[str]:
    """Return what was forbidden in two calls; after an allowed one, nothing is compiled again.

    A cache of jax that remembered the error would have each later call compile.
    """
    kinds = []
    with guard("raise"):
        for _ in range(2):
            with pytest.raises(CompilationForbidden) as caught:
                call(x)
            kinds.append(caught.value.kind)
        with guard.allow():
            call(x)
        for _ in range(2):
            call(x)
    return kinds


# Each begins something new whenever it is called.
WAYS: dict[str, Callable[[Any], Any]] = {
    "jit": lambda x: new_jit()(x),
    "lower": lambda x: new_jit().lower(x),
    "trace": lambda x: new_jit().trace(x),
    "eval_shape": lambda x: jax.eval_shape(lambda x: x - 1, x),
    "make_jaxpr": lambda x: jax.make_jaxpr(lambda x: x - 1)(x),
    "grad of jit": lambda x: jax.grad(lambda x: new_jit()(x)[0, 0])(x),
    "vmap of jit": lambda x: jax.vmap(new_jit())(x),
    "scan": lambda x: jax.lax.scan(lambda c, a: (c + a.sum(), a), np.float32(0), x),
    "cond": lambda x: jax.lax.cond(True, lambda x: x * 2, lambda x: -x, x),
    "shard_map": sharded,
    "custom_vjp": with_custom_rule,
    "pure_callback": lambda x: jax.jit(lambda x: jax.pure_callback(lambda x: x, x, x))(x),
    "export": lambda x: jax.export.export(new_jit())(x),
}


class TestRaise:
    @pytest.mark.parametrize("way", WAYS)
    def test_it_raises_and_allows(self, way: str) -> None:
        x = jnp.asarray(X)
        with guard("raise"):
            with pytest.raises(CompilationForbidden) as caught:
                WAYS[way](x)
            assert f"{__file__}:" in caught.value.caller
            with guard.allow():
                WAYS[way](x)
        WAYS[way](x)

    @pytest.mark.parametrize("stage", ["tracing", "lowering", "compiling"])
    def test_the_same_call_works_afterwards(self, stage: str) -> None:
        jitted = new_jit()
        if stage != "tracing":
            traced = jitted.trace(X)
        if stage == "compiling":
            traced.lower()
        assert forbidden_then_allowed(jitted, X) == [stage, stage]

    @pytest.mark.parametrize("transform", [jax.vmap, lambda f: lambda x: jax.jvp(f, (x,), (x,))])
    def test_the_same_transformed_call_works_afterwards(self, transform: Any) -> None:
        assert forbidden_then_allowed(transform(new_jit()), X) == ["lowering"] * 2

    def test_an_operation_outside_of_jit(self) -> None:
        x = np.ones((3, 7), "float32")
        with guard("raise"), pytest.raises(CompilationForbidden) as caught:
            jnp.hypot(x, x)
        assert caught.value.function == "jax:hypot"
        assert "for what is called outside of jitted functions" in str(caught.value)

    def test_what_compiles_nothing_is_no_concern_of_it(self) -> None:
        jitted, loss = new_jit(), jax.grad(lambda x: (jnp.sin(x) * 2).sum())
        jitted(X), loss(X)
        with guard("raise"):
            np.testing.assert_array_equal(jitted(X), X * 3)
            loss(X)
            np.asarray(jax.device_put(X))
            jax.jit(lambda x: x)  # not called

    def test_from_several_threads(self) -> None:
        jitted = new_jit()
        barrier = threading.Barrier(4, timeout=60)

        def call(number: int) -> str:
            x = np.ones(number + 1, "float32")
            barrier.wait()
            with guard("raise"):
                with pytest.raises(CompilationForbidden) as caught:
                    jitted(x)
                with guard.allow():
                    jitted(x)
                jitted(x)
            return caught.value.avals[0]

        with ThreadPoolExecutor(4) as pool:
            assert [*pool.map(call, range(4))] == [f"x: f32[{n}]" for n in range(1, 5)]


class TestWhichGuardHolds:
    def test_the_innermost(self) -> None:
        before = seen("tracing")
        with guard("raise"), guard("count"):
            new_jit()(X)
            with guard("raise"), pytest.raises(CompilationForbidden):
                new_jit()(X)
        assert seen("tracing") == before + 2

    def test_a_thread_is_outside_unless_it_has_the_context(self) -> None:
        with guard("raise"), ThreadPoolExecutor(1) as pool:
            pool.submit(new_jit(), X).result()
            inside = contextvars.copy_context().run
            with pytest.raises(CompilationForbidden):
                pool.submit(inside, new_jit(), X).result()

    def test_the_switch_is_for_all_threads(self) -> None:
        switch = guard("raise").start()
        try:
            with ThreadPoolExecutor(1) as pool, pytest.raises(CompilationForbidden):
                pool.submit(new_jit(), X).result()
            with guard.allow():
                new_jit()(X)
            with guard("count"):
                new_jit()(X)
            assert switch.start() is switch
        finally:
            switch.stop()
        switch.stop()
        new_jit()(X)

    def test_tasks_of_asyncio_are_inside(self) -> None:
        async def task() -> Any:
            return new_jit()(X)

        async def main() -> list[Any]:
            outside = asyncio.ensure_future(task())
            with guard("raise"):
                tasks = [asyncio.ensure_future(task()), asyncio.to_thread(new_jit(), X)]
                return await asyncio.gather(outside, *tasks, return_exceptions=True)

        outside, inside, in_thread = asyncio.run(main())
        np.testing.assert_array_equal(outside, X * 3)
        assert type(inside) is type(in_thread) is CompilationForbidden


@pytest.mark.parametrize("mode", ["Raise", "allow", None, ""])
def test_another_mode_is_refused(mode: Any) -> None:
    with pytest.raises(AotbuildError, match=r"guard\(mode\): expected one of raise, log, count"):
        guard(mode)


class TestLogAndCount:
    def test_each_signature_is_logged_once(
        self, source: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        with guard("log"), caplog.at_level(logging.WARNING, "aotbuild"):
            for x in (X, OTHER, X):
                source.double(x)
                source.double.clear_cache()
        first, second = caplog.records
        assert first.levelname == "WARNING"
        assert first.getMessage().startswith("guarded_source:double: tracing, called at ")
        assert "\n" not in first.getMessage()
        assert vars(first)["aotbuild_event"] == "compilation"
        assert vars(first)["aotbuild_stage"] == "tracing"
        assert vars(first)["aotbuild_function"] == "guarded_source:double"
        assert vars(first)["aotbuild_caller"].startswith(f"{__file__}:")
        assert vars(second)["aotbuild_signature"] == "x: f32[3,4]"

    def test_counts_are_by_kind_and_function(self, source: Any) -> None:
        name = "guarded_source:double"
        kinds = ("tracing", "lowering", "compiling")
        before = {kind: guard.counts().get(kind, {}).get(name, 0) for kind in kinds}
        with guard("count"):
            for x in (X, OTHER, X):
                source.double(x)
            with guard.allow():
                source.double(X[0])
        source.double(X[0, 0])
        counts = guard.counts()
        assert {kind: counts[kind][name] - before[kind] for kind in kinds} == dict.fromkeys(
            kinds, 2
        )


FROM_THE_ENVIRONMENT = """
import importlib.util, json, sys, threading
import aotbuild
loaded = "jax" in sys.modules, len([name for name in sys.modules if "aotbuild" in name])
assert importlib.util.find_spec("jax") is not None
import jax
import numpy as np
found = []
def call():
    try:
        jax.jit(lambda x: x + 1)(np.ones(3))
    except aotbuild.errors.CompilationForbidden as err:
        found.append(err.function)
thread = threading.Thread(target=call)
thread.start()
thread.join()
with aotbuild.guard.allow():
    call()
finders = [type(finder).__name__ for finder in sys.meta_path]
print(json.dumps([loaded, found, "_AfterJax" in finders]))
"""


@pytest.mark.process
def test_the_environment_starts_it_before_jax_is_imported() -> None:
    loaded, found, is_left = fresh(FROM_THE_ENVIRONMENT, AOTBUILD_GUARD="raise")
    assert loaded[0] is False
    assert loaded[1] <= 40
    assert found == ["__main__:call.<locals>.<lambda>"]
    assert not is_left


def test_a_build_is_not_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    from aotbuild.record.guard import start_from_environment

    monkeypatch.setenv("AOTBUILD_GUARD", "raise")
    monkeypatch.setenv("AOTBUILD_BUILDING", "1")
    start_from_environment()
    new_jit()(X)
