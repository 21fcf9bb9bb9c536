"""Fallbacks: none raises, portable compiles once, jit calls the source; damage is never hidden."""

from __future__ import annotations

import importlib
import logging
import re
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from support.packages import Built, build, portable, write

import aotbuild
from aotbuild.errors import (
    AotbuildError,
    CompilationForbidden,
    DamagedBlob,
    NoExecutable,
    SignatureMismatch,
)
from aotbuild.format.index import write_index
from aotbuild.format.signature import Function
from aotbuild.manifest import parse_manifest
from aotbuild.runtime.checked_blobs import DirectorySource, open_index
from hatch_aotbuild.plugin import editable_index

X = np.ones((2, 4), "float32")
OTHER = np.ones((3, 4), "float32")


def double(x: Any) -> Any:
    return {"y": x * 2}


@partial(jax.tree_util.register_dataclass, data_fields=["x"], meta_fields=["by"])
@dataclass(frozen=True)
class Scaled:
    x: Any
    by: Any


def scaled(value: Scaled) -> Any:
    return value.x * {int: 2, bool: 3, float: 4}[type(value.by)]


@pytest.fixture(scope="module")
def native() -> Built:
    return build("f", double, {"x": X}, call="fallback_source:f")


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "fallback_source.py").write_text("def f(x):\n    return {'y': x * 2}\n")


def test_a_source_that_is_imported_inside_a_transformation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    source = (
        "import jax.numpy as jnp\nTWO = jnp.ones(4) + 1\ndef f(x):\n    return {'y': x * TWO}\n"
    )
    (tmp_path / "source_with_arrays.py").write_text(source)
    library = aotbuild.load(
        write(tmp_path, [build("f", double, {"x": X}, call="source_with_arrays:f")])
    )
    traced = jax.jit(lambda x: library.f(x)["y"])
    np.testing.assert_array_equal(traced(X), X * 2)
    # The arrays of the module must not be tracers of the first trace.
    np.testing.assert_array_equal(jax.jit(lambda x: library.f(x)["y"] + 1)(X), X * 2 + 1)


def test_a_type_of_results_that_is_imported_inside_a_transformation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "result_with_arrays.py").write_text(
        "import collections, jax.numpy as jnp\n"
        "TWO = jnp.ones(4) + 1\n"
        "Result = collections.namedtuple('Result', 'y', module=__name__)\n"
    )
    result: Any = importlib.import_module("result_with_arrays").Result
    folder = write(tmp_path, [build("f", lambda x: result(x * 2), {"x": X})])
    monkeypatch.delitem(sys.modules, "result_with_arrays")
    library = aotbuild.load(folder)
    outputs = jax.jit(lambda x: x + library.f(X).y)(X)
    np.testing.assert_array_equal(outputs, X * 3)
    found = importlib.import_module("result_with_arrays")
    np.testing.assert_array_equal(found.TWO, 2)


def test_an_editable_install_says_what_it_is(tmp_path: Path, source: None) -> None:
    folder = write(tmp_path, [], fallback="jit", editable={"f": {"static_argnames": []}})
    function = Function("f", "fallback_source:f", (), (), (), (), wrap="")
    index = open_index(DirectorySource(folder))
    (folder / "index").write_bytes(write_index(index.header, [function], []))
    library = aotbuild.load(folder)
    np.testing.assert_array_equal(library.f(X)["y"], X * 2)
    note = "demo is an editable install without executables: calls go to the source"
    assert str(library.explain("f", X).error) == f"f: {note}"
    with aotbuild.guard("raise"), pytest.raises(CompilationForbidden) as caught:
        library.f(OTHER)
    assert caught.value.trace == (note,)
    says = r"demo is an editable install without executables.*run `aotbuild build --in-place`"
    with pytest.raises(AotbuildError, match=says):
        aotbuild.load(folder, arrays="numpy")


@pytest.mark.parametrize(
    "options",
    [
        "signatures: [{args: [x: 'f32[2,4]'], static: {n: [2]}}]",
        "wrap: nnx.jit\n    args: [x: 'f32[2,4]']\n    static: {0: [2]}",
    ],
)
def test_an_editable_install_knows_what_is_static(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: str
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "fallback_static.py").write_text("def f(n, x):\n    return [x] * n\n")
    text = f"version: 1\npackage: p\nfunctions:\n  f:\n    call: fallback_static:f\n    {options}\n"
    folder = write(tmp_path, [])
    (folder / "index").write_bytes(editable_index(parse_manifest(text)))
    assert len(aotbuild.load(folder).f(2, X)) == 2


class TestPolicy:
    def test_the_variable_overrides_the_index(
        self, tmp_path: Path, native: Built, source: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        library = aotbuild.load(write(tmp_path, [native]))
        with pytest.raises(SignatureMismatch):
            library.f(OTHER)
        monkeypatch.setenv("AOTBUILD_FALLBACK", "jit")
        np.testing.assert_array_equal(library.f(OTHER)["y"], OTHER * 2)
        monkeypatch.setenv("AOTBUILD_FALLBACK", "none")
        with pytest.raises(SignatureMismatch):
            library.f(OTHER)


class TestJit:
    def test_counted_and_logged(
        self, tmp_path: Path, native: Built, source: None, caplog: pytest.LogCaptureFixture
    ) -> None:
        library = aotbuild.load(write(tmp_path, [native], fallback="jit"))
        with caplog.at_level(logging.WARNING, "aotbuild"):
            for _ in range(2):
                np.testing.assert_array_equal(library.f(OTHER)["y"], OTHER * 2)
        assert library.stats()["fallbacks"] == {"portable": 0, "jit": 2}
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert "calling the source" in caplog.text
        assert "x: expected f32[2,4], found f32[3,4]" in caplog.text

    def test_refused_executables_fall_back_too(
        self, tmp_path: Path, native: Built, source: None
    ) -> None:
        library = aotbuild.load(write(tmp_path, [native.replace(jaxlib="0")], fallback="jit"))
        np.testing.assert_array_equal(library.f(X)["y"], X * 2)

    def test_arguments_that_the_manifest_lacks(self, tmp_path: Path, source: None) -> None:
        (tmp_path / "fallback_more.py").write_text("def f(x, y=1.0):\n    return x + y\n")
        built = build("f", lambda x: x + 1.0, {"x": X}, call="fallback_more:f")
        library = aotbuild.load(write(tmp_path, [built], fallback="jit"))
        np.testing.assert_array_equal(library.f(X, y=2.0), X + 2)

    @pytest.mark.parametrize("wrap", ["", "eqx.filter_jit"])
    def test_what_the_source_raises_is_raised_alone(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrap: str
    ) -> None:
        monkeypatch.syspath_prepend(str(tmp_path))
        (tmp_path / "fallback_raising.py").write_text("def f(x):\n    raise RuntimeError('mine')\n")
        folder = write(tmp_path, [])
        function = Function("f", "fallback_raising:f", ("x",), ("x",), (), (), wrap=wrap)
        (folder / "index").write_bytes(write_index({"fallback": "jit"}, [function], []))
        with pytest.raises(RuntimeError, match="mine") as caught:
            aotbuild.load(folder).f(X)
        assert not isinstance(caught.value.__context__, NoExecutable)

    def test_damage_is_never_papered_over(
        self, tmp_path: Path, native: Built, source: None
    ) -> None:
        folder = write(tmp_path, [native], fallback="jit")
        (folder / native.record.blob.path).unlink()
        with pytest.raises(DamagedBlob):
            aotbuild.load(folder).f(X)


@pytest.mark.parametrize(
    ("forms", "call", "advised"),
    [([], X, ["jit"]), ([double], X, ["portable or =jit"]), ([double], OTHER, ["jit"])],
)
def test_only_fallbacks_that_can_serve_are_advised(
    tmp_path: Path, native: Built, source: None, forms: Any, call: Any, advised: list[str]
) -> None:
    built = [native.replace(jaxlib="0"), *(portable(native, form) for form in forms)]
    folder = write(tmp_path, built)
    for arrays, expected in (("jax", advised), ("numpy", [])):
        said = str(aotbuild.load(folder, arrays=arrays).explain("f", call).error)
        assert re.findall("AOTBUILD_FALLBACK=(.*) compiles such calls", said) == expected
        assert ("only with fallback: portable" in said) is (expected == ["portable or =jit"])


class TestPortable:
    def test_the_signature_that_was_exported(self, tmp_path: Path, native: Built) -> None:
        built = [native.replace(jaxlib="0"), portable(native, double)]
        library = aotbuild.load(write(tmp_path, built, fallback="portable"))
        for _ in range(2):
            np.testing.assert_array_equal(library.f(X)["y"], X * 2)
        stats = library.stats()
        assert stats["fallbacks"] == {"portable": 2, "jit": 0}
        assert stats["portable_compiled"] == 1

    def test_a_symbolic_shape(self, tmp_path: Path, native: Built) -> None:
        from jax import export

        (dim,) = export.symbolic_shape("b", constraints=["b <= 8"])
        shape = jax.ShapeDtypeStruct((dim, 4), "float32")
        built = [native, portable(native, double, shape, symbolic=True)]
        library = aotbuild.load(write(tmp_path, built, fallback="portable"))
        for size in (3, 5, 8):
            x = np.ones((size, 4), "float32")
            np.testing.assert_array_equal(library.f(x)["y"], x * 2)
        assert library.stats()["portable_compiled"] == 3
        for wrong in (np.ones((9, 4), "float32"), np.ones((3, 5), "float32"), OTHER.astype("int8")):
            with pytest.raises(SignatureMismatch, match="portable:cpu:1: REFUSED: ") as caught:
                library.f(wrong)
            assert isinstance(caught.value.__cause__, ValueError) == (wrong.dtype == "float32")

    def test_a_symbolic_shape_with_equal_static_data_of_another_type(self, tmp_path: Path) -> None:
        """`1 == True == 1.0`, and the program of each is another."""
        from jax import export

        (dim,) = export.symbolic_shape("b")
        native = build("f", scaled, {"x": Scaled(X, 1)})
        shape = jax.ShapeDtypeStruct((dim, 4), "float32")
        built = portable(native, lambda x: scaled(Scaled(x, 1)), shape, symbolic=True)
        library = aotbuild.load(write(tmp_path, [native, built], fallback="portable"))
        np.testing.assert_array_equal(library.f(Scaled(OTHER, 1)), OTHER * 2)
        for other in (True, 1.0):
            with pytest.raises(SignatureMismatch, match="REFUSED: another signature"):
                library.f(Scaled(OTHER, other))
