"""The numpy backend beside the jax backend, in one process: equal results."""

from __future__ import annotations

import gc
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import ml_dtypes
import numpy as np
import pytest
from support import packages
from support.numpy_backend import both, with_numpy
from support.packages import build

from aotbuild.errors import AotbuildError, SignatureMismatch

SEEDED = np.random.default_rng(0)
X = np.arange(12, dtype="float32").reshape(3, 4)


class Pair(NamedTuple):
    first: Any
    second: Any


def check(root: Path, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Call both backends twice, slow and fast, and compare everything that a caller can see."""
    named = {f"a{index}": arg for index, arg in enumerate(args)}
    with_jax, without = both(root, build("f", fn, named, kwargs))
    expected = with_jax.f(*args, **kwargs)
    for _ in range(2):
        found = without.f(*args, **kwargs)
        assert jax.tree.structure(found) == jax.tree.structure(expected)
        for have, want in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            assert type(have) is np.ndarray
            assert (have.dtype, have.shape) == (want.dtype, want.shape)
            assert not have.flags.writeable
            np.testing.assert_array_equal(have, np.asarray(want))
    assert without.stats()["misses"] == 1


def test_what_a_miss_is(tmp_path: Path) -> None:
    """The first call of each form, and each call that no executable serves."""
    for library in both(tmp_path, build("f", lambda x: x + 1, {"x": X})):
        # With jax's arrays, `keeping` returns `library.f` itself.
        kept, is_apart = library.f.keeping(), library.f.keeping() is not library.f
        here, on = kept(X), library.on("cpu" if is_apart else jax.devices()[0])
        calls = [(library.f, X), (library.f, here), (on.f, X), (kept, X)]
        for call, x in calls * 3:
            call(x)
            library.f(x=X)
        assert library.stats()["misses"] == 4 + is_apart
        for refused in (1, 2):
            with pytest.raises(SignatureMismatch):
                library.f(X[1:])
            assert library.stats()["misses"] == 4 + is_apart + refused


class TestEqualToTheOtherDoor:
    @pytest.mark.parametrize(
        "dtype",
        [
            *("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32"),
            *("float16", "float32", "complex64"),
            *("bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"),
            *("int4", "uint4", "int2", "uint2"),
        ],
    )
    def test_dtypes(self, tmp_path: Path, dtype: str) -> None:
        kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
        # 15 elements: the last byte of packed ones is not full.
        check(tmp_path, lambda x: (x, x[1:, ::2]), SEEDED.integers(0, 4, (3, 5)).astype(kind))

    @pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.int4])
    @pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,)])
    def test_small_arrays(self, tmp_path: Path, dtype: Any, shape: Any) -> None:
        check(tmp_path, lambda x: x + x, np.ones(shape, dtype))

    @pytest.mark.parametrize("value", [True, 2, 2.5, 1j, np.float32(2), np.int8(2)])
    def test_numbers(self, tmp_path: Path, value: Any) -> None:
        check(tmp_path, lambda x, s: x * s, X, value)

    @pytest.mark.parametrize(
        "value",
        [
            X.astype("float64"),
            np.asfortranarray(X),
            X[::2, ::-1],
            np.broadcast_to(X[0], X.shape),
            np.array(2.0, "float32"),
            np.zeros((0, 4), "float32"),
            X.view(np.memmap),
        ],
    )
    def test_arrays_of_any_layout(self, tmp_path: Path, value: Any) -> None:
        check(tmp_path, lambda x: (x + 1, x.sum()), value)

    @pytest.mark.parametrize(
        "tree",
        [
            {"b": X, "a": [X, (X, None)], 3: X}.get("a"),
            {"b": X, "a": {"z": X, "c": ()}},
            Pair(X, [Pair(X, None)]),
            OrderedDict(z=X, a=2 * X),
            defaultdict(list, {"z": X, "a": 2 * X}),
        ],
    )
    def test_trees_in_and_out(self, tmp_path: Path, tree: Any) -> None:
        check(tmp_path, lambda tree, x: {"same": tree, "more": Pair(x, [tree])}, tree, X)

    def test_static_arguments(self, tmp_path: Path) -> None:
        built = [
            build("f", lambda x, k: x * len(k), {"x": X}, statics={"k": k}, positional=["x", "k"],
                  defaults={"k": (1,)})
            for k in ((1,), (1, 2))
        ]  # fmt: skip
        library = with_numpy(tmp_path, *built)
        np.testing.assert_array_equal(library.f(X), X)
        np.testing.assert_array_equal(library.f(X, (1, 2)), 2 * X)
        np.testing.assert_array_equal(library.f(x=X, k=(1, 2)), 2 * X)
        line = r"expected \(1,\), found \(1\.0,\)"
        with pytest.raises(SignatureMismatch, match=line):
            library.f(X, (1.0,))


class TestMemory:
    @pytest.mark.parametrize("shape", [(16,), (512, 512)])
    def test_a_donated_argument_keeps_its_content(self, tmp_path: Path, shape: Any) -> None:
        x = packages.aligned(np.ones(shape, "float32"))
        library = with_numpy(tmp_path, build("f", lambda x: x + 1, {"x": x}, donate=["x"]))
        for _ in range(3):
            np.testing.assert_array_equal(library.f(x), np.full(shape, 2, "float32"))
            np.testing.assert_array_equal(x, np.ones(shape, "float32"))

    @pytest.mark.parametrize("donate", [[], ["x"]])
    def test_a_result_is_no_view_of_an_argument(self, tmp_path: Path, donate: Any) -> None:
        x = packages.aligned(np.ones(1024, "float32"))
        fn: Callable[[Any, Any], Any] = lambda x, y: (x, y, x)  # noqa: E731
        library = with_numpy(tmp_path, build("f", fn, {"x": x, "y": x}, donate=donate))
        for _ in range(2):
            x[:] = 1
            results = library.f(x, x)
            x[:] = 2
            for result in results:
                assert not np.shares_memory(result, x)
                np.testing.assert_array_equal(result, np.ones(1024, "float32"))

    @pytest.mark.parametrize("dtype", ["float32", ml_dtypes.bfloat16, ml_dtypes.int4])
    def test_a_result_outlives_the_library(self, tmp_path: Path, dtype: Any) -> None:
        x = np.arange(4).astype(dtype)
        library = with_numpy(tmp_path, build("f", lambda x: x + x, {"x": x}))
        results = [library.f(x) for _ in range(100)]
        library.close()
        del library
        gc.collect()
        for result in results:
            np.testing.assert_array_equal(result, x + x)


class TestLibrary:
    @pytest.mark.parametrize(
        "where", ["cpu:99", "tpu", "cpu:x", f"cpu:{'1' * 5000}", "cpu:٣", "", 0, None]
    )
    def test_on_refuses_the_rest(self, tmp_path: Path, where: Any) -> None:
        library = with_numpy(tmp_path, build("f", lambda x: x, {"x": X}))
        with pytest.raises(AotbuildError, match="expected the name of a device"):
            library.on(where)

    def test_clear_caches(self, tmp_path: Path) -> None:
        library = with_numpy(tmp_path, build("f", lambda x: x * 2, {"x": X}))
        for _ in range(2):
            np.testing.assert_array_equal(library.f(X), 2 * X)
            jax.clear_caches()
        assert library.stats()["loaded"] == 1
