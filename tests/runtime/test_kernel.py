"""Kernels: equal to jit in values, types, trees and commitment; fast, slow and from threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import packages
from support.packages import build, write

import aotbuild
from aotbuild.errors import InvalidArgument, SignatureMismatch


class Pair(NamedTuple):
    first: Any
    second: Any


def load(root: Path, *built: packages.Built, **options: Any) -> aotbuild.runtime.library.Library:
    return aotbuild.load(write(root, built, **options))


def check(kernel: Callable[..., Any], fn: Callable[..., Any], *args: Any) -> None:
    """Call twice, slow and fast, and compare everything that a caller can see."""
    expected = jax.jit(fn)(*args)
    for _ in range(2):
        found = kernel(*args)
        assert jax.tree.structure(found) == jax.tree.structure(expected)
        for have, want in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            assert (have.aval, have.committed) == (want.aval, want.committed)
            assert have.sharding.is_equivalent_to(want.sharding, want.ndim)
            if jax.dtypes.issubdtype(have.dtype, jax.dtypes.prng_key):
                have, want = jax.random.key_data(have), jax.random.key_data(want)
            np.testing.assert_array_equal(np.asarray(have), np.asarray(want))


def affine(params: Any, x: Any) -> Any:
    return {"y": params["w"] @ x + params["b"], "params": params}


PARAMS = {"w": np.arange(12, dtype="float32").reshape(3, 4), "b": np.ones(3, "float32")}
X = np.arange(4, dtype="float32")


class TestEqualToJit:
    @pytest.mark.parametrize("convert", [np.asarray, jnp.asarray])
    def test_trees(self, tmp_path: Path, convert: Any) -> None:
        args = jax.tree.map(convert, (PARAMS, X))
        library = load(tmp_path, build("f", affine, {"params": PARAMS, "x": X}))
        check(library.f, affine, *args)
        assert library.stats()["misses"] == 1

    @pytest.mark.parametrize(
        "value",
        [
            1,
            1.5,
            True,
            1j,
            np.float32(2),
            np.zeros((0, 3), "int8"),
            *(
                pytest.param(("ones", dtype), id=dtype)
                for dtype in ("bfloat16", "float8_e4m3fn", "int4", "complex64")
            ),
            pytest.param(("key", "threefry2x32"), id="key"),
            pytest.param(("key", "rbg"), id="rbg"),
            pytest.param(("key", "unsafe_rbg"), id="unsafe_rbg"),
        ],
    )
    def test_dtypes_and_weak_types(self, tmp_path: Path, value: Any) -> None:
        match value:
            case ("key", impl):
                value = jax.random.split(jax.random.key(0, impl=impl), 3)
            case ("ones", dtype):
                value = jnp.ones((2, 3), dtype)
        fn = lambda x: (x.reshape(-1), x[None])  # noqa: E731
        if not hasattr(value, "reshape"):
            fn = lambda x: (x, [x])  # noqa: E731
        check(load(tmp_path, build("f", fn, {"x": value})).f, fn, value)

    def test_a_weakly_typed_boolean_fed_back(self, tmp_path: Path) -> None:
        fn = lambda is_low, x: (x < 1.0, ~is_low)  # noqa: E731
        is_low = jnp.less(0.5, 1.0)
        assert is_low.weak_type
        library = load(tmp_path, build("f", fn, {"is_low": is_low, "x": 0.5}))
        check(library.f, fn, is_low, 0.5)
        (again, _) = library.f(is_low, 0.5)
        check(library.f, fn, again, 0.5)
        with pytest.raises(SignatureMismatch, match="expected a weakly typed array"):
            library.f(True, 0.5)  # no weak type, as under jit

    def test_several_signatures_and_unused_arguments(self, tmp_path: Path) -> None:
        fn = lambda x, y, z: (y * 2, None, ())  # noqa: E731
        inputs = [(1.0, np.arange(n, dtype="int32"), PARAMS) for n in (1, 2, 5)]
        built = [build("f", fn, dict(zip("xyz", args, strict=True))) for args in inputs]
        library = load(tmp_path, *built)
        for args in inputs:
            check(library.f, fn, *args)
        assert library.stats()["loaded"] == 3

    def test_committed_inputs_commit_the_outputs(self, tmp_path: Path) -> None:
        library = load(tmp_path, build("f", affine, {"params": PARAMS, "x": X}))
        x = jax.device_put(X, jax.devices()[0])
        check(library.f, affine, PARAMS, x)
        check(library.f, affine, PARAMS, jnp.asarray(X))
        assert library.stats()["loaded"] == 1

    def test_a_namedtuple_and_an_input_tree_come_back(self, tmp_path: Path) -> None:
        optax = pytest.importorskip("optax")
        state = optax.adam(0.1).init(PARAMS)
        fn = lambda s: (Pair(s[0].count + 1, 2.0), jax.tree.map(lambda x: x * 2, s))  # noqa: E731
        library = load(tmp_path, build("f", fn, {"state": state}))
        check(library.f, fn, state)
        assert type(library.f(state)[1][0]) is type(state[0])

    def test_a_namedtuple_that_is_registered_as_another_node_comes_back(
        self, tmp_path: Path
    ) -> None:
        from jax.example_libraries import optimizers

        adam = optimizers.adam(0.1)
        fn = lambda x: adam.init_fn({"w": x})  # noqa: E731
        library = load(tmp_path, build("init", fn, {"x": X}))
        check(library.init, fn, X)
        step = lambda state, x: adam.update_fn(0, {"w": x}, state)  # noqa: E731
        (tmp_path / "step").mkdir()
        library = load(tmp_path / "step", build("step", step, {"state": fn(X), "x": X}))
        check(library.step, step, fn(X), X)

    def test_linear_algebra(self, tmp_path: Path) -> None:
        def fn(x: Any) -> Any:
            return jnp.linalg.eigh(x), jnp.linalg.qr(x), jnp.linalg.svd(x), jnp.linalg.solve(x, x)

        x = np.diag([3.0, 2.0, 1.0]).astype("float32")
        built = build("f", fn, {"x": x})
        assert {call.provider for call in built.record.requires.custom_calls} == {"jax"}
        check(load(tmp_path, built).f, fn, x)


class TestCalls:
    def test_arguments_by_name_in_any_order(self, tmp_path: Path) -> None:
        def fn(z: Any, a: Any, *, k: Any) -> Any:
            return z - a + k

        library = load(tmp_path, build("f", fn, {"z": 1.0, "a": 2.0}, {"k": 3.0}))
        for _ in range(2):
            assert library.f(1.0, 2.0, k=3.0) == 2
            assert library.f(1.0, k=3.0, a=2.0) == 2
            assert library.f(k=3.0, a=2.0, z=1.0) == 2
        assert library.stats()["loaded"] == 1

    def test_a_donated_argument_is_deleted_also_on_the_fast_path(self, tmp_path: Path) -> None:
        fn = lambda cache, x: (cache + x, x)  # noqa: E731
        built = build("f", fn, {"cache": X, "x": 1.0}, donate=["cache"])
        library = load(tmp_path, built)
        for _ in range(3):
            cache = jnp.asarray(X)
            np.testing.assert_array_equal(library.f(cache, 1.0)[0], X + 1)
            assert cache.is_deleted()
        assert library.stats()["misses"] == 1

    def test_an_array_that_is_donated_and_passed_twice_is_named(self, tmp_path: Path) -> None:
        fn = lambda cache, x: (cache + x, x * 2)  # noqa: E731
        library = load(tmp_path, build("f", fn, {"cache": X, "x": X}, donate=["cache"]))
        x = jnp.asarray(X)
        with pytest.raises(InvalidArgument, match=r"argument x\n.*\n  found .* is also cache\n"):
            library.f(x, x)
        np.testing.assert_array_equal(library.f(x, X)[0], X + X)
        assert x.is_deleted()

    def test_a_deleted_array_is_named(self, tmp_path: Path) -> None:
        library = load(tmp_path, build("f", affine, {"params": PARAMS, "x": X}))
        x = jnp.asarray(X)
        x.delete()
        with pytest.raises(
            InvalidArgument, match="argument x\n  expected an array\n  found    a d"
        ):
            library.f(PARAMS, x)

    def test_x64_is_read_at_each_call(self, tmp_path: Path) -> None:
        fn = lambda x: x * 2  # noqa: E731
        built = [build("f", fn, {"x": 1.5})]
        with jax.enable_x64(True):
            built += [build("f", fn, {"x": np.float64(1.5)})]
        library = load(tmp_path, *built)
        for _ in range(2):
            check(library.f, fn, 1.5)
            with jax.enable_x64(True):
                check(library.f, fn, np.float64(1.5))
                with pytest.raises(SignatureMismatch, match="jax_enable_x64: expected False"):
                    library.f(1.5)
            with pytest.raises(
                SignatureMismatch, match=r"expected True, found False \(start the process with J"
            ):
                library.f(np.float64(1.5))

    def test_a_layout_of_another_order_is_refused(self, tmp_path: Path) -> None:
        from jax.experimental.layout import Format, Layout

        fn = lambda x: x * 2  # noqa: E731
        x = jnp.arange(6.0).reshape(2, 3)
        library = load(tmp_path, build("f", fn, {"x": np.asarray(x)}))
        committed = jax.device_put(x, x.sharding)
        library.f(committed)
        with pytest.raises(InvalidArgument, match="row-major layout"):
            library.f(jax.device_put(x, Format(Layout((1, 0)), x.sharding)))


class TestOddValues:
    """With `jax_debug_nans` and `jax_debug_infs`, as with jit."""

    @pytest.mark.parametrize(("option", "kind"), [("debug_nans", "nan"), ("debug_infs", "inf")])
    @pytest.mark.parametrize("is_warm", [False, True])
    def test_they_are_floating_point_errors(
        self, tmp_path: Path, option: str, kind: str, is_warm: bool
    ) -> None:
        x = np.ones(4, np.float32)
        library = load(tmp_path, build("f", lambda x: x * np.float32(2), {"x": x}))
        if is_warm:
            library.f(x)
        words = rf"invalid value \({kind}\) encountered in f"
        with getattr(jax, option)(True):
            with pytest.raises(FloatingPointError, match=words):
                library.f(np.float32(kind) * x)
            np.testing.assert_array_equal(library.f(x), 2 * x)
        assert library.stats()["misses"] == (1 if is_warm else 2)


class TestStatics:
    def test_values_equal_in_python_have_executables_of_their_own(self, tmp_path: Path) -> None:
        def fn(x: Any, *, k: Any) -> Any:
            return x, (type(k).__name__, str(k)) == ("", ""), len(str(k)) + 0 * x

        values = [1, 1.0, True, (1,), (1.0,), (True,), ((1,), 2), ((1.0,), 2), 0.0, -0.0, "1", None]
        built = [build("f", fn, {"x": 1.0}, statics={"k": value}) for value in values]
        library = load(tmp_path, *built)
        for _ in range(3):
            for value in values:
                assert library.f(1.0, k=value)[2] == len(str(value)), value
        assert len(library.f.records) == len(values)

    def test_a_default_and_a_position(self, tmp_path: Path) -> None:
        fn = lambda x, mode: x * len(mode)  # noqa: E731
        built = [
            build(
                "f", fn, {"x": 1.0}, statics={"mode": mode},
                positional=["x", "mode"], defaults={"mode": "ab"},
            )
            for mode in ("ab", "abc")
        ]  # fmt: skip
        library = load(tmp_path, *built)
        for _ in range(2):
            assert library.f(2.0) == library.f(2.0, "ab") == library.f(2.0, mode="ab") == 4
            assert library.f(mode="abc", x=2.0) == 6


class TestTransformations:
    def test_tracers_go_to_the_source(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.syspath_prepend(str(tmp_path))
        (tmp_path / "kernel_source.py").write_text("def f(x, *, k):\n    return x ** k\n")
        fn = lambda x, *, k: x**k  # noqa: E731
        built = build("f", fn, {"x": 3.0}, statics={"k": 2}, call="kernel_source:f")
        library = load(tmp_path, built)
        assert jax.grad(partial(library.f, k=2))(3.0) == 6
        assert jax.jit(lambda x: library.f(x, k=2))(3.0) == 9
        np.testing.assert_array_equal(jax.vmap(partial(library.f, k=2))(X), X**2)
        assert library.stats()["transformed"] == 3
        assert library.stats()["loaded"] == 0

    @pytest.mark.parametrize(("fallback", "count"), [("none", 1), ("jit", 0)])
    def test_it_is_said_once(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
        fallback: str,
        count: int,
    ) -> None:
        monkeypatch.syspath_prepend(str(tmp_path))
        (tmp_path / "said_source.py").write_text("def f(x):\n    return x * 2\n")
        built = build("f", lambda x: x * 2, {"x": 3.0}, call="said_source:f")
        library = aotbuild.load(packages.write(tmp_path, [built], fallback=fallback))
        for _ in range(2):
            jax.grad(library.f)(3.0)
        text = (
            "f: called inside a JAX transformation (jit, grad, vmap and the like): its source is "
            "traced and compiled there, and no executable of the package runs; call it outside of "
            "the transformation, or compile a function that has the transformation inside"
        )
        assert [record.getMessage() for record in caplog.records] == [text] * count

    def test_concrete_arguments_inside_a_trace_run_the_executable(self, tmp_path: Path) -> None:
        library = load(tmp_path, build("f", lambda x: x * 2, {"x": X}))
        np.testing.assert_array_equal(jax.jit(lambda y: y + library.f(X))(X), X * 3)

    def test_disable_jit_runs_the_source(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.syspath_prepend(str(tmp_path))
        (tmp_path / "plain_source.py").write_text("def f(x):\n    return x + 5\n")
        library = load(tmp_path, build("f", lambda x: x, {"x": 3.0}, call="plain_source:f"))
        with jax.disable_jit():
            assert library.f(1.0) == 6


class TestThreads:
    @pytest.mark.parametrize("arrays", ["jax", "numpy"])
    def test_eight_first_calls_load_once(self, tmp_path: Path, arrays: str) -> None:
        inputs = [np.ones(n, "float32") for n in (3, 4)]
        fn = lambda x: x * 2  # noqa: E731
        built = [build("f", fn, {"x": x}) for x in inputs]
        library = aotbuild.load(write(tmp_path, built), arrays=arrays)
        barrier, results = threading.Barrier(8), []

        def call(index: int) -> None:
            barrier.wait()
            results.append(float(library.f(inputs[index % 2]).sum()))

        threads = [threading.Thread(target=call, args=(index,)) for index in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(results) == [6.0] * 4 + [8.0] * 4
        assert library.stats()["loaded"] == 2


@pytest.mark.parametrize("arrays", ["jax", "numpy"])
@pytest.mark.parametrize("name", ["key", "self", "args"])
@pytest.mark.parametrize("shape", [(1, 2), 3], ids=repr)
def test_a_parameter_may_have_any_name(name: str, shape: Any, arrays: str, tmp_path: Path) -> None:
    """`def sample(x, shape, *, key)` is jax's own spelling; static tuples take a path of theirs."""

    def fn(x: Any, shape: Any = None, **given: Any) -> Any:
        return x + given[name]

    built = build("f", fn, {"x": X}, {name: X}, {"shape": shape})
    library = aotbuild.load(write(tmp_path, [built]), arrays=arrays)
    for _ in range(2):
        np.testing.assert_array_equal(library.f(X, shape=shape, **{name: X}), X + X)
    assert library.explain("f", X, shape=shape, **{name: X}).error is None
    with pytest.raises(SignatureMismatch):
        library.f(X[:1], shape=shape, **{name: X})
