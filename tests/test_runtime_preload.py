"""Preloading and priming: what is ready before the first call, once each, whatever else fails."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from runtime_support import Built, build, fresh, write

import aotbuild
from aotbuild.errors import AotbuildError, DamagedBlob
from aotbuild.runtime.library import Library
from aotbuild.runtime.preload import Job, preload
from aotbuild.runtime.select import Grade, Verdict
from aotbuild.runtime.stats import Stats
from aotbuild.runtime.withjax.placement import Placement
from aotbuild.spec.record import Record

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
from runtime_support import build, write
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
    fresh(FRESH + BUILD, str(root), devices=4)
    return str(root / "_aot")


class TestDevices:
    def test_a_mesh(self, folder: str) -> None:
        code = """
library = aotbuild.load(sys.argv[1])
library.preload(prime=True, threads=4)
found = [e for e in events if e.startswith("/jax/core/compile")]
sums = [float(library.one(x)[1]), *[float(getattr(library, n)(x)[1]) for n in "abc"]]
print(json.dumps([found, sums, library.stats()["primed"], library.stats()["misses"]]))
"""
        assert fresh(FRESH + code, folder, devices=4) == [[], [28.0] * 4, 5, 0]

    def test_a_view(self, folder: str) -> None:
        code = """
library = aotbuild.load(sys.argv[1]).on(devices[2])
library.preload("one", prime=True)
y, _ = library.one(x)
print(json.dumps([y.device.id, library.stats()["misses"]]))
"""
        assert fresh(FRESH + code, folder, devices=4) == [2, 0]


class TestFailures:
    def test_one_does_not_stop_the_others(self, tmp_path: Path) -> None:
        built = [build(name, lambda x: x * 2, {"x": X + n}) for n, name in enumerate("fg")]
        built[1] = build("g", lambda x: x * 3, {"x": X})
        folder = write(tmp_path, built)
        (folder / built[1].record.blob.path).write_bytes(b"damaged")
        library = aotbuild.load(folder)
        with pytest.raises(DamagedBlob):
            library.preload(prime=True)
        np.testing.assert_array_equal(library.f(X), X * 2)
        assert (library.stats()["primed"], library.stats()["misses"]) == (1, 0)

    def test_all_are_named(self, tmp_path: Path) -> None:
        built = [
            build("f", lambda x: x * 2, {"x": X}),
            build("g", lambda x: x * 3, {"x": X}),
        ]
        folder = write(tmp_path, built)
        for item in built:
            (folder / item.record.blob.path).write_bytes(b"damaged")
        with pytest.raises(AotbuildError) as caught:
            aotbuild.load(folder).preload()
        text = str(caught.value)
        assert text.startswith("2 executables could not be preloaded")
        assert all(item.record.blob.path in text for item in built)
        assert isinstance(caught.value.__cause__, DamagedBlob)

    def test_what_raises_on_zeros(self, record: Record) -> None:
        def fail() -> list[Any]:
            raise FloatingPointError("0 / 0")

        stats = Stats()
        with pytest.raises(AotbuildError) as caught:
            preload(FakeLoader(fail), [job(record)], stats, 1, told := Told())
        assert str(caught.value).splitlines() == [
            f"{record}: it cannot be run on zeros",
            "  found    FloatingPointError: 0 / 0",
            "Leave its function out: name the others, preload('this', 'that', prime=True).",
        ]
        assert (stats.to_dict()["primed"], told.records) == (0, [])


class FakeLoader:
    """Gives executables that do what they are told instead of running."""

    def __init__(self, run: Callable[[], list[Any]]) -> None:
        self.run_on_zeros = run

    def load_bytes(self, record: Record, devices: Any) -> bool:
        return True

    def load(self, verdict: Verdict, placement: Any) -> FakeLoader:
        return self


class Told:
    def __init__(self) -> None:
        self.records: list[Record] = []

    def __call__(self, record: Record, executable: Any, outputs: list[Any]) -> None:
        self.records.append(record)


def job(record: Record, digest: str = "0") -> Job:
    record = replace(record, blob=replace(record.blob, sha256=digest * 64))
    return Job(Verdict(record, Grade.OPTIMAL), Placement(("cpu",), False))


@pytest.fixture(scope="module")
def record() -> Record:
    return build("f", lambda x: x * 2, {"x": X}).record


class TestOrder:
    def test_programs_over_a_mesh_run_one_at_a_time(self, record: Record) -> None:
        alone, together = threading.Lock(), []

        def run() -> list[Any]:
            if not alone.acquire(blocking=False):
                together.append(1)
                return []
            for _ in range(100):
                threading.Event().wait(0)  # lets the others go on, if they may
            alone.release()
            return []

        meshed = replace(record, requires=replace(record.requires, devices=2))
        jobs = [job(meshed, digest) for digest in "123"]
        assert preload(FakeLoader(run), jobs, Stats(), 3, Told()) == 3
        assert together == []

    def test_programs_on_one_device_run_side_by_side(self, record: Record) -> None:
        meeting, caller = threading.Barrier(3, timeout=60), threading.current_thread()

        def run() -> list[Any]:
            if threading.current_thread() is not caller:
                meeting.wait()
            return []

        jobs = [job(record, digest) for digest in "123"]
        assert preload(FakeLoader(run), jobs, Stats(), 3, Told()) == 3

    def test_the_largest_runs_again_in_the_calling_thread(self, record: Record) -> None:
        ran_here: list[str] = []
        caller = threading.current_thread()

        class Sized(FakeLoader):
            def load(self, verdict: Verdict, placement: Any) -> FakeLoader:
                name = verdict.record.blob.sha256[0]

                def run() -> list[Any]:
                    if threading.current_thread() is caller:
                        ran_here.append(name)
                    return []

                return FakeLoader(run)

        def of_size(digest: str, size: int) -> Job:
            leaves = tuple(replace(aval, shape=(size,)) for aval in record.signature.leaves)
            signature = replace(record.signature, leaves=leaves)
            return job(replace(record, signature=signature), digest)

        jobs = [of_size("1", 4), of_size("2", 400), of_size("3", 40)]
        assert preload(Sized(list), jobs, Stats(), 2, Told()) == 3
        assert set(ran_here) == {"2"}

    def test_what_several_processes_do_together_is_only_loaded(self, record: Record) -> None:
        ran: list[int] = []
        requires = replace(record.requires, devices=2, processes=2)
        told, loader = Told(), FakeLoader(lambda: ran.append(1) or [])
        assert preload(loader, [job(replace(record, requires=requires))], Stats(), 1, told) == 1
        assert (ran, told.records) == ([], [])
