"""Calls counted by signature: on request, and then each one; otherwise nothing is different."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from support.packages import Built, build, write

import aotbuild
from aotbuild.errors import SignatureMismatch

BACKENDS = pytest.mark.parametrize("arrays", ["jax", "numpy"])
X, LARGER = np.ones((2, 4), np.float32), np.ones((3, 4), np.float32)


@pytest.fixture(scope="module")
def built() -> list[Built]:
    def scaled(x: Any, k: int = 2) -> Any:
        return x * k

    call, options = "count_source:f", {"positional": ["x", "k"], "defaults": {"k": 2}}
    return [
        build("f", lambda x: x * 2, {"x": X}, call=call),
        build("f", lambda x: x * 2, {"x": LARGER}, call=call),
        *(build("g", scaled, {"x": X}, statics={"k": k}, **options) for k in (2, 3)),
    ]


@pytest.fixture
def folder(tmp_path: Path, built: list[Built]) -> Path:
    return write(tmp_path / "package", built)


@BACKENDS
def test_off_by_default(folder: Path, arrays: str) -> None:
    library = aotbuild.load(folder, arrays=arrays)
    library.f(X)
    assert "calls" not in library.stats()
    assert type(library.f.__call__).__name__ == "PjitFunction"


@BACKENDS
def test_each_call_by_its_signature(folder: Path, arrays: str) -> None:
    library = aotbuild.load(folder, arrays=arrays)
    library.f(X)
    library.count_calls()
    for _ in range(5):
        library.f(X)
    library.f(x=X)
    library.f(LARGER)
    library.g(X)
    library.g(X, 2)
    library.g(X, k=3)
    assert library.stats()["calls"] == {
        "f": {"f32[2,4]": 6, "f32[3,4]": 1},
        "g": {"f32[2,4], k=2": 2, "f32[2,4], k=3": 1},
    }


@BACKENDS
def test_the_variable(folder: Path, arrays: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOTBUILD_COUNT_CALLS", "1")
    library = aotbuild.load(folder, arrays=arrays)
    library.f(X)
    library.f(X)
    assert library.stats()["calls"] == {"f": {"f32[2,4]": 2}}


def test_views_and_kernels_of_later(folder: Path) -> None:
    library = aotbuild.load(folder)
    view = library.on(jax.devices()[0])
    view.f(X)
    library.count_calls()
    view.f(X)
    library.f(X)
    assert library.stats()["calls"] == {"f": {"f32[2,4]": 2}}


def test_calls_that_raise_or_are_traced_do_not_count(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "count_source.py").write_text("def f(x):\n    return x * 2\n")
    library = aotbuild.load(folder)
    library.count_calls()
    with pytest.raises(SignatureMismatch):
        library.f(X[0])
    jax.vmap(library.f)(X)
    assert library.stats()["calls"] == {"f": {}}


def test_decorated_functions(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOTBUILD_COUNT_CALLS", "1")
    monkeypatch.syspath_prepend(str(folder.parent))
    (folder.parent / "demo").mkdir()
    folder.rename(folder.parent / "demo" / "_aot")
    decorated: Any = aotbuild.precompiled("demo:f")(lambda x: x)
    decorated(X)
    assert decorated.__aotbuild_library__.stats()["calls"] == {"f": {"f32[2,4]": 1}}


def test_a_decorated_function_that_was_called_already(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(folder.parent))
    (folder.parent / "demo").mkdir()
    folder.rename(folder.parent / "demo" / "_aot")
    decorated: Any = aotbuild.precompiled("demo:f")(lambda x: x)
    decorated(X)
    decorated.__aotbuild_library__.count_calls()
    decorated(X)
    assert decorated.__aotbuild_library__.stats()["calls"] == {"f": {"f32[2,4]": 1}}


@BACKENDS
def test_kernels_that_keep_results(folder: Path, arrays: str) -> None:
    library = aotbuild.load(folder, arrays=arrays)
    library.count_calls()
    library.f.keeping()(X)
    assert library.stats()["calls"]["f"] == {"f32[2,4]": 1}


@BACKENDS
def test_threads(folder: Path, arrays: str) -> None:
    library = aotbuild.load(folder, arrays=arrays)
    library.count_calls()
    work = [threading.Thread(target=lambda: [library.f(X) for _ in range(200)]) for _ in range(4)]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    assert library.stats()["calls"]["f"] == {"f32[2,4]": 800}


@BACKENDS
def test_each_64_bit_mode_by_its_own_signature(tmp_path: Path, arrays: str) -> None:
    with jax.enable_x64(True):
        built = [build("f", lambda x: x * 2, {"x": np.float64(X)})]
    library = aotbuild.load(
        write(tmp_path, [build("f", lambda x: x * 2, {"x": X}), *built]), arrays=arrays
    )
    library.count_calls()
    for wide in (False, True, True):
        with jax.enable_x64(wide):
            library.f(np.float64(X))
    assert library.stats()["calls"] == {"f": {"f32[2,4]": 1, "f64[2,4]": 2}}
