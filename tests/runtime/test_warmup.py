"""Priming: every executable runs once on zeros, and the first call finds all that it needs."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.forks import forked
from support.packages import Built, build, write

import aotbuild
from aotbuild.runtime.library import Library

X = np.arange(4, dtype=np.float32)


class Pair(NamedTuple):
    first: Any
    second: Any


def load(tmp_path: Path, *built: Built, **options: Any) -> Library:
    return aotbuild.load(write(tmp_path, built), **options)


def kinds_of(value: Any) -> list[Any]:
    """Return a value as callers give it: numpy's, on no device in particular, on one."""
    return [value, jax.device_put(value), jax.device_put(value, jax.devices()[0])]


class TestPriming:
    @pytest.mark.parametrize(
        "value",
        [
            X,
            X.astype(jnp.bfloat16.dtype),
            np.arange(4).astype(jnp.int4.dtype),
            np.array([True, False]),
            X * 1j,
            np.zeros((0, 2), np.int8),
            np.float32(1),
            {"a": X, "b": [X, (X,)], "none": None},
            Pair(X, {"c": X}),
        ],
    )
    def test_every_kind_of_array_is_known(self, tmp_path: Path, value: Any) -> None:
        built = build("f", lambda tree: jax.tree.map(lambda x: x + x, tree), {"tree": value})
        library = load(tmp_path, built)
        assert library.preload(prime=True) == 1
        for given in kinds_of(value):
            found = library.f(given)
            assert jax.tree.structure(found) == jax.tree.structure(value)
            for one, leaf in zip(jax.tree.leaves(found), jax.tree.leaves(value), strict=True):
                np.testing.assert_array_equal(one, leaf + leaf)
        assert library.stats()["misses"] == 0

    def test_what_is_committed(self, tmp_path: Path) -> None:
        """A result is committed where an argument is, also when the cache was told ahead."""
        library = load(tmp_path, build("f", lambda x: x * 2, {"x": X}))
        library.preload(prime=True)
        found = [library.f(x).committed for x in kinds_of(X)]
        assert (found, library.stats()["misses"]) == ([False, False, True], 0)

    def test_weights_that_are_somewhere_and_inputs_that_are_not(self, tmp_path: Path) -> None:
        fn = lambda w, x, y, z: w["w"] * x + y + z  # noqa: E731
        inputs = {"w": {"w": X}, "x": X, "y": X, "z": X}
        library = load(tmp_path, build("f", fn, inputs))
        library.preload(prime=True)
        for weights in kinds_of(inputs["w"]):
            np.testing.assert_array_equal(library.f(weights, X, X, X), X * X + X + X)
        assert library.stats()["misses"] == 0

    def test_typed_keys_and_numbers(self, tmp_path: Path) -> None:
        key = jax.random.key(3)
        draw = lambda k, scale: jax.random.normal(k, (3,)) * scale  # noqa: E731
        library = load(tmp_path, build("f", draw, {"k": key, "scale": 2.0}))
        library.preload(prime=True)
        np.testing.assert_array_equal(library.f(key, 2.0), draw(key, 2.0))
        assert library.stats()["misses"] == 0

    def test_static_values_and_names(self, tmp_path: Path) -> None:
        fn = lambda x, n, *, y, mode: x * n + y * len(mode)  # noqa: E731
        built = [
            build("f", fn, {"x": X}, {"y": X}, {"n": n, "mode": mode}, defaults={"mode": "ab"},
                  positional=["x", "n"])
            for n in (2, 3) for mode in ("ab", "c")
        ]  # fmt: skip
        library = load(tmp_path, *built)
        assert library.preload(prime=True) == len({b.record.blob.sha256 for b in built})
        np.testing.assert_array_equal(library.f(X, n=2, y=X), X * 2 + X * 2)
        np.testing.assert_array_equal(library.f(X, n=3, y=X, mode="c"), X * 3 + X)
        assert library.stats()["misses"] == 0

    def test_donated_arguments_and_constants(self, tmp_path: Path) -> None:
        fn = lambda x, c: x + c  # noqa: E731
        built = build("f", fn, {"x": X}, constants={"c": X}, donate=["x"])
        library = load(tmp_path, built)
        for _ in range(2):
            library.preload(prime=True)
        for _ in range(3):
            x = jnp.asarray(X)
            np.testing.assert_array_equal(library.f(x), X + X)
            assert x.is_deleted()
        assert library.stats()["misses"] == 0

    def test_a_tree_that_cannot_be_made_here(self, tmp_path: Path) -> None:
        """Then the executable has run, and the first call still finds its own way."""
        name = f"{__name__}:Pair"
        built = build("f", lambda p: p.first + p.second, {"p": Pair(X, X)})
        signature = built.record.signature
        assert name in str(signature.tree)
        library = load(tmp_path, built)
        hidden = Pair
        try:
            del globals()["Pair"]
            library.preload(prime=True)
        finally:
            globals()["Pair"] = hidden
        np.testing.assert_array_equal(library.f(hidden(X, X)), X + X)
        assert (library.stats()["primed"], library.stats()["misses"]) == (1, 1)

    def test_it_is_counted(self, tmp_path: Path) -> None:
        sizes = [1, 2, 3]
        built = [build("f", lambda x: x * 2, {"x": np.ones(n, "f4")}) for n in sizes]
        library = load(tmp_path, *built, build("g", lambda x: x * 3, {"x": X}))
        assert library.preload("f", prime=True) == 3
        assert library.stats()["primed"] == 3
        assert library.stats()["prime_seconds"] > 0
        assert library.preload("f", prime=True) == 0

    def test_several_at_once(self, tmp_path: Path) -> None:
        built = [build("f", lambda x: x * 2, {"x": np.ones(n, "f4")}) for n in range(1, 5)]
        library = load(tmp_path, *built)
        counts: list[int] = []
        threads = [
            threading.Thread(target=lambda: counts.append(library.preload(threads=2, prime=True)))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (sum(counts) >= 4, library.stats()["loaded"]) == (True, 4)
        np.testing.assert_array_equal(library.f(np.ones(3, "f4")), np.full(3, 2.0))
        assert library.stats()["misses"] == 0

    def test_without_jax_arrays(self, tmp_path: Path) -> None:
        built = build("f", lambda x, c: {"y": x * c}, {"x": X}, constants={"c": X})
        library = load(tmp_path, built, arrays="numpy")
        library.preload(prime=True)
        np.testing.assert_array_equal(library.f(X)["y"], X * X)
        assert (library.stats()["primed"], library.stats()["misses"]) == (1, 0)


FRESH = """
import json, sys
import jax, numpy as np
import aotbuild
events = []
jax.monitoring.register_event_duration_secs_listener(lambda name, *a, **k: events.append(name))
devices = jax.devices()
x = np.arange(8, dtype="float32")
"""
BUILD = """
from pathlib import Path
from support.packages import build, write
fn = lambda x, c: (x * c, x.sum())
sharded = dict(mesh={"data": 4}, in_specs={"x": ("data",)}, constants={"c": x})
built = [
    build("one", fn, {"x": x}, constants={"c": x}),
    *[build(name, fn, {"x": x}, **sharded) for name in "abc"],
    build("key", jax.random.key_data, {"k": jax.random.split(jax.random.key(0), 4)},
          mesh={"data": 4}, in_specs={"k": ("data",)}, out_spec=("data",)),
]
write(Path(sys.argv[1]), built)
print("null")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("devices")
    forked(FRESH + BUILD, str(root), devices=4)
    return str(root / "_aot")


class TestDevices:
    @pytest.mark.process
    def test_a_mesh(self, folder: str) -> None:
        code = """
library = aotbuild.load(sys.argv[1])
library.preload(prime=True, threads=4)
found = [e for e in events if e.startswith("/jax/core/compile")]
sums = [float(library.one(x)[1]), *[float(getattr(library, n)(x)[1]) for n in "abc"]]
print(json.dumps([found, sums, library.stats()["primed"], library.stats()["misses"]]))
"""
        assert forked(FRESH + code, folder, devices=4) == [[], [28.0] * 4, 5, 0]

    @pytest.mark.process
    def test_a_view(self, folder: str) -> None:
        code = """
library = aotbuild.load(sys.argv[1]).on(devices[2])
library.preload("one", prime=True)
y, _ = library.one(x)
print(json.dumps([y.device.id, library.stats()["misses"]]))
"""
        assert forked(FRESH + code, folder, devices=4) == [2, 0]
