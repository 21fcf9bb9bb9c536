"""Constants that are replaced in a running process: switched between calls, for all callers."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from support.forks import forked
from support.packages import build, portable, write
from support.processes import fresh
from support.signing import keys
from support.swapping import BACKENDS, OTHER, PREFIX, B, W, X, tree, two_functions

import aotbuild
from aotbuild.errors import (
    NotTransformable,
    SignatureMismatch,
)

[KEY] = keys(1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "package", two_functions())


class TestRoundTrip:
    def test_names_avals_and_functions(self, folder: Path) -> None:
        library = aotbuild.load(folder)
        assert list(map(str, library.constants())) == [
            "demo.model.P.b: f32[4]",
            "demo.model.P.w: f32[4,4]",
        ]
        assert [info.functions for info in library.constants()] == [("f", "g"), ("f",)]
        assert [info.name for info in library.constants("g")] == ["demo.model.P.b"]
        assert [info.aval.shape for info in library.constants()] == [(4,), (4, 4)]

    @BACKENDS
    def test_a_file_that_save_constants_wrote(
        self, folder: Path, tmp_path: Path, arrays: str
    ) -> None:
        library = aotbuild.load(folder, arrays=arrays)
        np.testing.assert_allclose(library.f(X), X @ W + B)
        path = tmp_path / "new.safetensors"
        aotbuild.save_constants(path, tree(2), prefix=PREFIX)
        assert library.swap_constants(path) == 2
        for _ in range(3):
            np.testing.assert_allclose(library.f(X), 2 * (X @ W + B))
            np.testing.assert_allclose(library.g(X), 2 * X * B)
        library.swap_constants(None)
        np.testing.assert_allclose(library.f(X), X @ W + B)
        assert library.stats()["swaps"] == 2

    @BACKENDS
    @pytest.mark.parametrize("closed", ["library", "view"])
    def test_they_stay_when_a_library_is_closed(
        self, folder: Path, arrays: str, closed: str
    ) -> None:
        """A kernel in use must not serve one size with the new weights, another with the old."""
        library = aotbuild.load(folder, arrays=arrays)
        library.swap_constants(tree(2), prefix=PREFIX)
        kernel = library.g
        np.testing.assert_allclose(kernel(X), 2 * X * B)
        where = "cpu:0" if arrays == "numpy" else jax.devices()[0]
        (library if closed == "library" else library.on(where)).close()
        for _ in range(2):
            np.testing.assert_allclose(kernel(X), 2 * X * B)
            np.testing.assert_allclose(library.g(X), 2 * X * B)
            np.testing.assert_allclose(library.f(X), 2 * (X @ W + B))
        library.swap_constants(None)
        library.close()
        np.testing.assert_allclose(library.f(X), X @ W + B)

    @BACKENDS
    def test_a_tree_and_a_file_of_the_library_safetensors(
        self, folder: Path, tmp_path: Path, arrays: str
    ) -> None:
        library = aotbuild.load(folder, arrays=arrays)
        library.swap_constants(tree(3), prefix=PREFIX)
        np.testing.assert_allclose(library.f(X), 3 * (X @ W + B))
        save_file(tree(4), tmp_path / "new.safetensors")
        library.swap_constants(tmp_path / "new.safetensors", prefix=PREFIX)
        np.testing.assert_allclose(library.f(X), 4 * (X @ W + B))

    def test_a_folder_of_files(self, folder: Path, tmp_path: Path) -> None:
        for name, array in tree(5).items():
            (tmp_path / "parts").mkdir(exist_ok=True)
            save_file({name: array}, tmp_path / "parts" / f"{name}.safetensors")
        library = aotbuild.load(folder)
        library.swap_constants(tmp_path / "parts", prefix=PREFIX)
        np.testing.assert_allclose(library.f(X), 5 * (X @ W + B))

    def test_the_library_safetensors_reads_what_is_saved(self, tmp_path: Path) -> None:
        arrays = {
            "a": np.arange(3, dtype=np.int8),
            "b": {"c": jnp.ones((2, 2), jnp.bfloat16)},
            "d": [np.float32(2), np.zeros((0, 3))],
        }
        aotbuild.save_constants(tmp_path / "s.safetensors", arrays)
        found = load_file(tmp_path / "s.safetensors")
        assert sorted(found) == ["a", "b.c", "d.0", "d.1"]
        assert str(found["b.c"].dtype) == "bfloat16"
        np.testing.assert_array_equal(found["a"], arrays["a"])
        assert [path.name for path in tmp_path.iterdir()] == ["s.safetensors"]

    @pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float8_e4m3fn, np.int8, np.complex64])
    def test_dtypes(self, tmp_path: Path, dtype: Any) -> None:
        old, new = (jnp.asarray([[value] * 4] * 4, dtype) for value in (1, 2))
        built = build(
            "f", lambda x, **c: c["p"].astype("float32") + x, {"x": W}, constants={"p": old}
        )
        library = aotbuild.load(write(tmp_path, [built]))
        path = tmp_path / "new.safetensors"
        aotbuild.save_constants(path, {"p": new})
        library.swap_constants(path)
        np.testing.assert_array_equal(library.f(W), W + 2)
        library.swap_constants({"p": old})
        np.testing.assert_array_equal(library.f(W), W + 1)

    def test_float64_becomes_float32_as_for_arguments(self, folder: Path) -> None:
        library = aotbuild.load(folder)
        wide = {name: array.astype(np.float64) for name, array in tree(2).items()}
        library.swap_constants(wide, prefix=PREFIX)
        np.testing.assert_allclose(library.f(X), 2 * (X @ W + B))

    @BACKENDS
    def test_arrays_that_are_written_to_later(self, folder: Path, arrays: str) -> None:
        library, given = aotbuild.load(folder, arrays=arrays), tree(2)
        library.swap_constants(given, prefix=PREFIX)
        given["w"][:] = 0
        np.testing.assert_allclose(library.f(X), 2 * (X @ W + B))


class TestOldWeightsAreNeverUsed:
    """The source and the portable form have the constants of the build."""

    def test_no_fallback(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "swap_source.py").write_text("def f(x):\n    return x\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        forms = [*two_functions(), portable(two_functions()[0], lambda x: x)]
        library = aotbuild.load(write(tmp_path, forms, fallback="jit"))
        library.f(OTHER)
        library.swap_constants(tree(2), prefix=PREFIX)
        for policy in ("jit", "portable"):
            monkeypatch.setenv("AOTBUILD_FALLBACK", policy)
            with pytest.raises(SignatureMismatch, match=f"fallback {policy}: its constants were"):
                library.f(OTHER)
        library.swap_constants(None)
        monkeypatch.setenv("AOTBUILD_FALLBACK", "jit")
        library.f(OTHER)

    def test_no_transformation(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "swap_source.py").write_text("def f(x):\n    return x\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        library = aotbuild.load(write(tmp_path, two_functions()))
        jax.vmap(library.f)(X)
        library.swap_constants(tree(2), prefix=PREFIX)
        with pytest.raises(NotTransformable, match="its constants were replaced"):
            jax.vmap(library.f)(X)


@BACKENDS
def test_threads_never_see_a_mixture_and_soon_the_new(folder: Path, arrays: str) -> None:
    """w and b are of one swap: each result is that of one factor."""
    library = aotbuild.load(folder, arrays=arrays)
    base, seen, stop = X @ W + B, [], threading.Event()

    def call() -> None:
        while not stop.is_set():
            result = np.asarray(library.f(X)) / base
            seen.append((result.min(), result.max()))

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for factor in range(2, 40):
        library.swap_constants(tree(factor), prefix=PREFIX)
        np.testing.assert_allclose(np.asarray(library.f(X)), factor * base)
    stop.set()
    for thread in threads:
        thread.join()
    assert all(low == pytest.approx(high) for low, high in seen)
    np.testing.assert_allclose(np.asarray(library.f(X)), 39 * base)


@BACKENDS
def test_a_swap_in_the_middle_of_a_first_call(folder: Path, arrays: str) -> None:
    """The call in flight may have the old ones, but neither cache keeps them."""
    library, swapped = aotbuild.load(folder, arrays=arrays), []

    def swap(event: Any) -> None:
        if event.kind == "loaded":
            swapped.append(library.swap_constants(tree(2), prefix=PREFIX))

    unsubscribe = aotbuild.subscribe(swap)
    first = np.asarray(library.f(X)) / (X @ W + B)
    unsubscribe()
    assert swapped == [2]
    assert first.min() == first.max()
    for _ in range(3):
        np.testing.assert_allclose(library.f(X), 2 * (X @ W + B))


def test_events_and_log(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    told: list[Any] = []
    library = aotbuild.load(folder)
    unsubscribe = aotbuild.subscribe(told.append)
    with caplog.at_level("INFO", "aotbuild"):
        library.swap_constants(tree(2), prefix=PREFIX)
    unsubscribe()
    [event] = told
    assert (event.kind, event.source) == ("swapped", "a tree of arrays")
    assert (event.constants, event.bytes) == (2, W.nbytes + B.nbytes)
    assert "constants replaced by a tree of arrays: 2, 80 bytes" in caplog.text


ON_DEVICES = """
import json, sys
import jax, numpy as np
import aotbuild
library = aotbuild.load(sys.argv[1])
x = np.ones((2, 4), np.float32)
views = [library.on(device) for device in jax.devices()]
before = [float(view.f(x)[0, 0]) for view in views]
weights = {"w": np.ones((4, 4), np.float32), "b": np.zeros(4, np.float32)}
library.swap_constants(weights, prefix="demo.model.P")
print(json.dumps([before, [float(view.f(x)[0, 0]) for view in views],
                  [str(view.f(x).devices()) for view in views]]))
"""


@pytest.mark.process
def test_all_devices_have_the_new_ones(folder: Path) -> None:
    before, after, devices = forked(ON_DEVICES, str(folder), devices=2)
    assert before == [25.0, 25.0]
    assert after == [4.0, 4.0]
    assert len(set(devices)) == 2


MEMORY = """
import gc, json, sys
import numpy as np
import aotbuild
def resident():
    gc.collect()
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 2**20
library = aotbuild.load(sys.argv[1], arrays=sys.argv[2])
x = np.ones((1, 4096), np.float32)
library.preload(prime=True)
library.f(x)
sizes = []
for number in range(6):
    library.swap_constants({"w": np.full((4096, 2048), number, np.float32)})
    assert float(np.asarray(library.f(x))[0, 0]) == 4096.0 * number
    sizes.append(resident())
print(json.dumps(sizes))
"""


@pytest.mark.process
@BACKENDS
def test_the_old_ones_are_freed(tmp_path: Path, arrays: str) -> None:
    """32 MiB each: six of them would be 192 MiB."""
    constants = {"w": np.ones((4096, 2048), np.float32)}
    x = np.ones((1, 4096), np.float32)
    built = build("f", lambda x, **c: x @ c["w"], {"x": x}, constants=constants)
    sizes = fresh(MEMORY, str(write(tmp_path, [built])), arrays)
    assert max(sizes[1:]) - sizes[0] < 20
