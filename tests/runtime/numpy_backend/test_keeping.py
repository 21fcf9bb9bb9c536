"""Arrays that calls take without a copy: `place`, results that are kept, and what is counted."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from support import packages
from support.numpy_backend import both, with_numpy
from support.packages import build, write
from support.processes import fresh

from aotbuild.errors import AotbuildError, InvalidArgument
from aotbuild.runtime.numpy.arrays import DeviceArray

X = np.arange(12, dtype="float32").reshape(3, 4)
LARGE = np.ones((512, 1024), "float32")  # 2 MB
DTYPES = ["float32", "bool", "bfloat16", "int4"]


class Out(NamedTuple):
    logits: Any
    cache: Any


def unaligned(array: Any) -> Any:
    space = packages.aligned(np.zeros(array.nbytes + 16, np.uint8))
    view = space[16:].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


def address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def values(dtype: str) -> Any:
    return (np.arange(15).reshape(3, 5) % 2).astype(np.dtype(getattr(ml_dtypes, dtype, dtype)))


class TestPlace:
    def test_what_calls_take_as_it_is_stays(self, tmp_path: Path) -> None:
        library = with_numpy(tmp_path, build("f", lambda x: x, {"x": X}))
        given = {
            "w": packages.aligned(X),
            "e": np.zeros((0, 2), "f4"),
            "n": 3,
            "s": np.float32(2),
            "none": None,
        }
        placed = library.place(given)
        assert placed is not given
        assert all(placed[name] is given[name] for name in given)

    @pytest.mark.parametrize(
        "array",
        [
            unaligned(X),
            np.asfortranarray(packages.aligned(X)),
            packages.aligned(X)[::2],
            packages.aligned(X.astype("float64")),
            packages.aligned(X.astype(">f4")),
        ],
    )
    def test_anything_else_is_copied(self, tmp_path: Path, array: Any) -> None:
        library = with_numpy(tmp_path, build("f", lambda x: x, {"x": X}))
        (placed,) = library.place([array])
        assert type(placed) is np.ndarray
        assert (placed.dtype, address(placed) % 64) == (np.dtype("float32"), 0)
        assert placed.flags.c_contiguous
        np.testing.assert_array_equal(placed, array)
        assert library.place(placed) is placed

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_dtypes(self, tmp_path: Path, dtype: str) -> None:
        x = values(dtype)
        with_jax, library = both(tmp_path, build("f", lambda x: (x, x[1:]), {"x": x}))
        placed = library.place(x)
        np.testing.assert_array_equal(np.asarray(placed), x)
        for _ in range(2):
            for have, want in zip(library.f(placed), with_jax.f(x), strict=True):
                np.testing.assert_array_equal(have, np.asarray(want))
        assert library.stats()["misses"] == 1

    @pytest.mark.process
    def test_before_a_fork(self, tmp_path: Path) -> None:
        code = """
import json, os, sys
import numpy as np
import aotbuild
library = aotbuild.load(sys.argv[1], arrays="numpy")
placed = library.place(np.arange(12, dtype="float32").reshape(3, 4))
child = os.fork()
if child == 0:
    os._exit(0 if library.f(placed).sum() == 132 else 1)
print(json.dumps(os.waitpid(child, 0)[1]))
"""
        folder = write(tmp_path, [build("f", lambda x: x * 2, {"x": X})])
        assert fresh(code, str(folder)) == 0

    def test_a_leaf_that_is_no_array(self, tmp_path: Path) -> None:
        library = with_numpy(tmp_path, build("f", lambda x: x, {"x": X}))
        with pytest.raises(AotbuildError) as caught:
            library.place({"a": [X, "text"]})
        lines = str(caught.value).splitlines()
        assert lines[:2] == ["place(…): ['a'][1]", "  expected an array, a number or a bool"]
        assert "numpy.asarray" in lines[-1]

    def test_with_jax_arrays(self, tmp_path: Path) -> None:
        library, _ = both(tmp_path, build("f", lambda x: x * 2, {"x": X}))
        placed = library.place({"x": X, "n": 1.0})
        assert isinstance(placed["x"], jax.Array)
        assert not placed["x"].committed
        device = jax.devices()[0]
        assert library.on(device).place(X).committed
        np.testing.assert_array_equal(library.on(device).f(library.on(device).place(X)), X * 2)


def decode() -> packages.Built:
    def fn(w: Any, cache: Any, x: Any) -> Any:
        return {"logits": (w * x).sum(), "cache": [c + x for c in cache]}

    return build("decode", fn, {"w": X, "cache": [X, X], "x": np.float32(1)}, donate=["cache"])


class TestKeeping:
    def test_a_loop(self, tmp_path: Path) -> None:
        with_jax, library = both(tmp_path, decode())
        step = library.decode.keeping("cache")
        assert step is library.decode.keeping("cache")
        assert step is not library.decode
        expected, found = {"cache": [X, X]}, {"cache": [X, X]}
        for number in range(4):
            expected = with_jax.decode(X, expected["cache"], np.float32(number))
            before, found = found["cache"], step(X, found["cache"], np.float32(number))
            assert type(found["logits"]) is np.ndarray
            assert [type(array) for array in found["cache"]] == [DeviceArray, DeviceArray]
            np.testing.assert_array_equal(found["logits"], expected["logits"])
            if number:
                assert all(array.is_deleted() for array in before)
        np.testing.assert_array_equal(np.asarray(found["cache"][0]), X + 6)
        # The first call has numpy arrays, the others have arrays on the device.
        assert library.stats()["misses"] == 2

    def test_memory_is_reused(self, tmp_path: Path) -> None:
        library = with_numpy(tmp_path, build("f", lambda x: x + 1, {"x": LARGE}, donate=["x"]))
        step = library.f.keeping()
        first = step(LARGE)
        place = address(np.asarray(first))
        second = step(first)
        assert address(np.asarray(second)) == place
        np.testing.assert_array_equal(np.asarray(second), LARGE + 2)

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_what_was_read_stays_when_the_array_is_donated(
        self, tmp_path: Path, dtype: str
    ) -> None:
        x = values(dtype)
        fn: Callable[[Any], Any] = lambda x: x[::-1] if dtype == "bool" else (x + x).astype(x.dtype)  # noqa: E731
        library = with_numpy(tmp_path, build("f", fn, {"x": x}, donate=["x"]))
        first = library.f.keeping()(x)
        read = np.asarray(first)
        was = read.copy()
        again = np.asarray(library.f.keeping()(first))
        np.testing.assert_array_equal(read, was)
        np.testing.assert_array_equal(again, np.asarray(jax.jit(fn)(jnp.asarray(was))))

    @pytest.mark.parametrize("names", [("cache",), (1,), (-1,), ("logits", 0)])
    def test_names_of_a_namedtuple(self, tmp_path: Path, names: Any) -> None:
        built = build("f", lambda x: Out(x.sum(), (x, x + 1)), {"x": X})
        library = with_numpy(tmp_path, built)
        if names == (-1,):
            with pytest.raises(AotbuildError) as caught:
                library.f.keeping(-1)(X)
            assert str(caught.value).splitlines() == [
                "f: keeping(-1)",
                "  expected some of 'logits', 0, 'cache', 1",
                "  found    -1",
                "Name results by their key, field or index; keeping() keeps all of them.",
            ]
            return
        logits, cache = library.f.keeping(*names)(X)
        is_cache = "logits" not in names
        assert isinstance(logits, DeviceArray) is not is_cache
        assert all(isinstance(array, DeviceArray) is is_cache for array in cache)

    def test_a_kept_result_goes_to_another_function(self, tmp_path: Path) -> None:
        library = with_numpy(
            tmp_path,
            build("f", lambda x: x + 1, {"x": X}),
            build("g", lambda x, k: x * k, {"x": X}, statics={"k": 3}, positional=["x", "k"]),
        )
        kept = library.f.keeping()(X)
        for _ in range(2):
            np.testing.assert_array_equal(library.g(kept, 3), (X + 1) * 3)
            np.testing.assert_array_equal(library.g(k=3, x=kept), (X + 1) * 3)

    def test_a_deleted_array(self, tmp_path: Path) -> None:
        library = with_numpy(
            tmp_path,
            build("f", lambda x: x + 1, {"x": X}, donate=["x"]),
            build("g", lambda x: x + 1, {"x": X}),
        )
        step = library.f.keeping()
        first = step(X)
        step(first)
        with pytest.raises(InvalidArgument) as caught:
            library.g(first)
        assert str(caught.value).splitlines() == [
            "g: argument x",
            "  expected an array",
            "  found    an array that was donated to an earlier call, or deleted",
            "Use that call's result.",
        ]
        # jaxlib 0.12 does not take such a call on the fast path, 0.10 raises there.
        with pytest.raises((ValueError, InvalidArgument), match="donated"):
            step(first)
        with pytest.raises(ValueError, match="was donated to a call"):
            np.asarray(first)

    def test_an_array_that_is_passed_twice(self, tmp_path: Path) -> None:
        built = build("f", lambda x, y: x + y, {"x": X, "y": X}, donate=["x"])
        library = with_numpy(tmp_path, built, build("g", lambda x: x + 1, {"x": X}))
        kept = library.g.keeping()(X)
        with pytest.raises(InvalidArgument, match="the array that is also x"):
            library.f(kept, kept)

    @pytest.mark.process
    def test_devices(self, tmp_path: Path) -> None:
        code = """
import json, sys
import numpy as np
import aotbuild
library = aotbuild.load(sys.argv[1], arrays="numpy")
x = np.arange(12, dtype="float32").reshape(3, 4)
first, second = (library.on(name).f.keeping()(x, x) for name in ("cpu:0", "cpu:1"))
followed = library.f.keeping()(second, x)
moved = library.on("cpu:1").f.keeping()(library.on("cpu:1").place(first), second)
try:
    library.f(first, second)
except aotbuild.errors.InvalidArgument as err:
    refused = str(err).splitlines()
print(json.dumps([repr(followed), moved.device, refused, "jax" in sys.modules]))
"""
        folder = write(tmp_path, [build("f", lambda x, y: x + y, {"x": X, "y": X})])
        followed, moved, refused, has_jax = fresh(code, str(folder), JAX_NUM_CPU_DEVICES="2")
        assert followed == "<aotbuild.DeviceArray float32[3, 4] on cpu:1>"
        assert moved == "cpu:1"
        assert refused == [
            "f: argument y",
            "  expected an array on cpu:0",
            "  found    <aotbuild.DeviceArray float32[3, 4] on cpu:1>",
            "Put all arguments on one device: library.on('cpu:0').place(tree).",
        ]
        assert not has_jax

    def test_with_jax_arrays_it_is_the_function(self, tmp_path: Path) -> None:
        library, _ = both(tmp_path, decode())
        assert library.decode.keeping("cache") is library.decode


class TestDeviceArray:
    def test_what_it_says(self, tmp_path: Path) -> None:
        kept = with_numpy(tmp_path, build("f", lambda x: x + 1, {"x": X})).f.keeping()(X)
        assert (kept.shape, kept.ndim, kept.size, kept.nbytes) == ((3, 4), 2, 12, 48)
        assert (kept.dtype, len(kept), kept.device) == (np.dtype("float32"), 3, "cpu:0")
        assert np.asarray(kept, "float64").dtype == "float64"
        assert np.array(kept, copy=True).flags.writeable
        with pytest.raises(TypeError, match=r"numpy\.asarray"):
            pickle.dumps(kept)
        kept.delete()
        assert repr(kept) == "<aotbuild.DeviceArray float32[3, 4] on cpu:0, deleted>"
