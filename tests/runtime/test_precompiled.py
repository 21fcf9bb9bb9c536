"""The decorator: a drop-in above a jitted function."""

from __future__ import annotations

import gc
import importlib.util
import inspect
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from support.packages import build, write

import aotbuild
from aotbuild.errors import (
    AotbuildError,
    MissingJax,
    NoArtifacts,
    PackageNotFound,
    SignatureMismatch,
    UnknownFunction,
)
from aotbuild.runtime.library import libraries

X = np.ones(4, "float32")


@pytest.fixture(autouse=True)
def _package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    folder = tmp_path / "decorated"
    folder.mkdir()
    write(folder, [build("f", lambda x: x * 2, {"x": X})])
    (tmp_path / "bare").mkdir()


@jax.jit
def triple(x: Any) -> Any:
    """Return three times x, so that a test can tell it from the executable."""
    return x * 3


def test_calls_run_the_executable() -> None:
    fn = aotbuild.precompiled("decorated:f")(triple)
    for _ in range(2):
        np.testing.assert_array_equal(fn(X), X * 2)


def test_it_looks_like_what_it_decorates() -> None:
    fn = aotbuild.precompiled("absent:f")(triple)
    assert fn.__aotbuild_source__ is triple
    assert (fn.__name__, fn.__doc__) == ("triple", triple.__doc__)
    assert inspect.signature(fn) == inspect.signature(triple)
    assert fn.lower(X).out_info.shape == (4,)


def test_tracers_go_to_the_source() -> None:
    fn = aotbuild.precompiled("decorated:f")(triple)
    assert jax.grad(lambda x: fn(x).sum())(X)[0] == 3
    np.testing.assert_array_equal(fn(X), X * 2)


def test_while_building_every_call_goes_to_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOTBUILD_BUILDING", "1")
    np.testing.assert_array_equal(aotbuild.precompiled("decorated:f")(triple)(X), X * 3)


def test_without_artifacts(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoArtifacts):
        aotbuild.precompiled("bare:f")(triple)(X)
    np.testing.assert_array_equal(aotbuild.precompiled("bare:f", fallback="jit")(triple)(X), X * 3)
    monkeypatch.setenv("AOTBUILD_FALLBACK", "jit")
    np.testing.assert_array_equal(aotbuild.precompiled("bare:f")(triple)(X), X * 3)


def test_a_fallback_of_its_own() -> None:
    other = np.ones(5, "float32")
    with pytest.raises(SignatureMismatch):
        aotbuild.precompiled("decorated:f")(triple)(other)
    fn = aotbuild.precompiled("decorated:f", fallback="jit")(triple)
    np.testing.assert_array_equal(fn(other), other * 3)


def test_wrong_references() -> None:
    for ref in ("decorated", ":f", "decorated:", "decorated:f.g"):
        with pytest.raises(AotbuildError, match="expected 'package:function'"):
            aotbuild.precompiled(ref)
    with pytest.raises(UnknownFunction):
        aotbuild.precompiled("decorated:g", fallback="jit")(triple)(X)


class TestItsLibrary:
    def test_it_is_opened_at_its_first_use(self) -> None:
        fn = aotbuild.precompiled("decorated:f")(triple)
        library = fn.__aotbuild_library__
        assert repr(library) == "<aotbuild.Library decorated, not opened yet>"
        assert library.functions == ("f",)
        assert repr(library).startswith("<aotbuild.Library demo at ")

    def test_of_a_path(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        fn = aotbuild.precompiled(f"{tmp_path}/absent:f", fallback="jit")(triple)
        assert repr(fn.__aotbuild_library__) == "<aotbuild.Library of a path, not opened yet>"
        np.testing.assert_array_equal(fn(X), X * 3)
        assert f"{tmp_path}/absent:f: calling the source" in caplog.text

    def test_of_a_package_that_is_not_there(self, tmp_path: Path) -> None:
        fn = aotbuild.precompiled("late:f", fallback="jit")(triple)
        with pytest.raises(PackageNotFound):
            fn.__aotbuild_library__.preload()
        (tmp_path / "decorated").rename(tmp_path / "late")
        assert fn.__aotbuild_library__.preload() == 1

    def test_opening_it_does_what_load_does(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        write(tmp_path / "decorated", [], editable={"f": {}})
        library = aotbuild.precompiled("decorated:f")(triple).__aotbuild_library__
        with caplog.at_level("WARNING", "aotbuild"):
            assert (library.preload(), library.preload()) == (0, 0)
        assert caplog.text.count("demo is an editable install") == 1
        assert library in libraries()
        find = importlib.util.find_spec
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda n, *a: None if n == "jax" else find(n)
        )
        with pytest.raises(MissingJax):
            aotbuild.precompiled("decorated:f")(triple).__aotbuild_library__.preload()


class TestLibraries:
    def test_those_that_are_open_in_the_order_of_opening(self, tmp_path: Path) -> None:
        before = libraries()
        first, second = (aotbuild.load(tmp_path / "decorated") for _ in range(2))
        assert libraries() == (*before, first, second)
        first.close()
        assert libraries() == (*before, second)

    def test_a_kernel_or_a_view_keeps_it(self, tmp_path: Path) -> None:
        def names() -> list[str]:
            gc.collect()
            return [library._package.source.path for library in libraries()]

        place = str(tmp_path / "decorated/_aot")
        kernel: Any = aotbuild.load(tmp_path / "decorated").f
        assert names().count(place) == 1
        kernel = None
        assert names().count(place) == 0
        kernel = aotbuild.load(tmp_path / "decorated").on(jax.devices()[0]).f
        assert names().count(place) == 1
        assert kernel is not None
