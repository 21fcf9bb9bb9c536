"""Libraries: names, refusals on hosts that do not fit, preloading, explaining, counting."""

from __future__ import annotations

import dataclasses
import importlib.util
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.packages import ISA, build, write

import aotbuild
from aotbuild.errors import AotbuildError, DamagedBlob, MissingJax, NoExecutable, UnknownFunction
from aotbuild.format.index import write_index
from aotbuild.format.signature import LIBRARY_NAMES
from aotbuild.format.target import Target
from aotbuild.runtime.api import locate
from aotbuild.runtime.jax.backend import probe
from aotbuild.runtime.library import Library

X = np.ones(4, "float32")
SIZES = (2, 4)


def double(x: Any) -> Any:
    return x * 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = [build("double", double, {"x": np.ones(n, "float32")}) for n in SIZES]
    built.append(build("triple", lambda x: x * 3, {"x": X}))
    return write(tmp_path_factory.mktemp("library"), built)


def as_wheel(folder: Path, place: Path) -> Path:
    wheel = place / "demo-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in folder.rglob("*"):
            archive.write(path, f"demo/_aot/{path.relative_to(folder)}")
    return wheel


@pytest.fixture
def library(folder: Path) -> Library:
    return aotbuild.load(folder)


class TestNames:
    def test_attributes(self, library: Library) -> None:
        assert library.functions == ("double", "triple")
        assert {"double", "triple", "preload"} <= set(dir(library))
        assert library.double is library.double
        assert repr(library.double) == "<aotbuild.Kernel demo:double>"
        assert library.double.__name__ == "double"
        assert repr(library).startswith("<aotbuild.Library demo at ")

    def test_an_unknown_one(self, library: Library) -> None:
        with pytest.raises(
            UnknownFunction, match=r"'dubble' \(did you mean 'double'\?\)"
        ) as caught:
            _ = library.dubble
        assert caught.value.known == ("double", "triple")
        assert not hasattr(library, "__wrapped__")
        assert not hasattr(library, "other")


class TestHosts:
    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            ({"platform": "tpu"}, "platform: expected cpu, found tpu"),
            ({"jaxlib": "0.0.1"}, "jaxlib: expected .*, found 0.0.1"),
            ({"features": frozenset({"avx"})}, f"isa: {ISA.replace('+', '.')} needs .*lacks"),
            ({"x64": True}, "jax_enable_x64: expected False, found True"),
            ({"device_count": 0}, "devices: expected 1, found 0"),
        ],
    )
    def test_refused_before_a_blob_is_read(self, folder: Path, changes: Any, reason: str) -> None:
        library = Library(
            locate(folder), host=lambda name: dataclasses.replace(probe(name), **changes)
        )
        with pytest.raises(NoExecutable, match=reason):
            library.double(X)
        assert library.stats()["loaded"] == 0
        assert library.preload() == 0
        assert "REFUSED" in str(library.explain("double", X))


class TestDamage:
    def test_a_flipped_bit_never_reaches_xla(self, tmp_path: Path) -> None:
        built = build("f", double, {"x": X})
        folder = write(tmp_path, [built])
        path = folder / built.record.blob.path
        whole = path.read_bytes()
        path.write_bytes(whole[:1000] + bytes([whole[1000] ^ 1]) + whole[1001:])
        library = aotbuild.load(folder)
        for _ in range(2):
            with pytest.raises(DamagedBlob, match="Reinstall the wheel"):
                library.f(X)
        path.write_bytes(whole)
        np.testing.assert_array_equal(library.f(X), X * 2)

    def test_bytes_that_jaxlib_refuses_raise_our_error(self, tmp_path: Path) -> None:
        from aotbuild.format import protobuf
        from aotbuild.format.canonical import sha256_hex
        from aotbuild.format.record import Blob

        built = build("f", double, {"x": X})
        (whole,) = built.blobs.values()
        size, at = protobuf.varint(whole, 0)
        head, message = whole[: at + size], whole[at + size :]
        # What it states stays, its thunks go.
        rest = protobuf.changed(
            protobuf.bytes_of(message, 1), lambda field: b"" if field.number == 5 else None
        )
        data = head + protobuf.replaced(message, (1,), rest)
        record = dataclasses.replace(built.record, blob=Blob("pjrt", sha256_hex(data), len(data)))
        wrong = dataclasses.replace(built, record=record, blobs={record.blob.path: data})
        with pytest.raises(AotbuildError, match="jaxlib could not load the executable"):
            aotbuild.load(write(tmp_path, [wrong])).f(X)

    def test_lapack_that_cannot_be_had_stops_no_other(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from aotbuild.format.record import CustomCall
        from aotbuild.platforms.base import host_part

        def broken() -> Any:
            raise ImportError("scipy.linalg is not whole")

        monkeypatch.setattr(type(host_part("cpu")), "kernels", lambda _: iter(broken, None))
        calls = (CustomCall("lapack_sgetrf_ffi", "jax"),)
        built = build("f", double, {"x": X}).replace(custom_calls=calls)
        library = aotbuild.load(write(tmp_path, [built, build("g", lambda x: x * 3, {"x": X})]))
        with pytest.raises(AotbuildError, match=r"sgetrf_ffi\n.*scipy.linalg is not whole"):
            library.preload()
        assert library.stats()["loaded"] == 1


class TestVerbs:
    def test_explain(self, library: Library) -> None:
        explanation = library.explain("double", X)
        assert explanation.chosen is not None
        assert str(explanation) == (
            f"double: runs double cpu:{ISA}:1\n  double cpu:{ISA}:1: OPTIMAL"
        )
        mismatch = library.explain("double", np.ones(3, "float32"))
        assert mismatch.chosen is None
        assert "x: expected f32[2] or f32[4], found f32[3]" in str(mismatch)
        assert library.stats()["loaded"] == 0

    def test_stats(self, library: Library) -> None:
        for _ in range(3):
            library.double(X)
        stats = library.stats()
        assert stats.pop("load_seconds") > 0
        assert stats == {
            "functions": 2,
            "executables": 3,
            "loaded": 1,
            "misses": 1,
            "refused": 0,
            "fallbacks": {"portable": 0, "jit": 0},
            "portable_compiled": 0,
            "transformed": 0,
            "padded": 0,
        }

    def test_close(self, library: Library) -> None:
        kernel = library.double
        kernel(X)
        library.close()
        np.testing.assert_array_equal(kernel(X), X * 2)
        assert "double" not in vars(library)

    @pytest.mark.parametrize("arrays", ["jax", "numpy"])
    def test_close_of_a_wheel(self, folder: Path, tmp_path: Path, arrays: str) -> None:
        """A server may have had another wheel put there; what is in use goes on."""
        library = aotbuild.load(as_wheel(folder, tmp_path), arrays=arrays)
        used = library.double
        assert np.array_equal(used(X), X * 2)
        library.close()
        assert np.array_equal(used(X), X * 2)
        with pytest.raises(AotbuildError, match="and with it the wheel; load it again"):
            library.double(X)

    @pytest.mark.parametrize("arrays", ["jax", "numpy"])
    def test_calls_after_chdir(
        self, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arrays: str
    ) -> None:
        monkeypatch.chdir(folder)
        library = aotbuild.load(".", arrays=arrays)
        monkeypatch.chdir(tmp_path)
        assert np.array_equal(library.double(X), X * 2)
        library.close()
        assert np.array_equal(library.triple(X), X * 3)


@pytest.mark.parametrize("runs", [True, False])
def test_an_explanation_says_each_thing_once(tmp_path: Path, runs: bool) -> None:
    made = build("f", lambda x: x + 1, {"x": X})
    records = [made.record] if runs else []
    for name in ("h200", "h100-sxm"):
        target = Target("cuda", name)
        requires = dataclasses.replace(made.record.requires, platforms=("cuda",), isa=None)
        records.append(dataclasses.replace(made.record, target=target, requires=requires))
    folder = write(tmp_path, [dataclasses.replace(made, record=record) for record in records])
    explanation = aotbuild.load(folder).explain("f", X)
    line = "REFUSED: platform: expected cuda, found cpu"
    trace = f"  cuda: 2 executables for h100-sxm, h200: {line}"
    first = [f"f: runs f cpu:{ISA}:1", f"  f cpu:{ISA}:1: OPTIMAL"]
    lines = str(explanation).splitlines()
    expected = [*first, trace] if runs else ["f: no executable may run here", trace, lines[-1]]
    assert lines == expected
    assert len(explanation.verdicts) == len(records)


def test_public_names_are_reserved_in_manifests() -> None:
    public = {name for name in vars(Library) if not name.startswith("_")}
    assert public == LIBRARY_NAMES


def test_jax_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda n, *a: None if n == "jax" else find(n))
    folder = tmp_path / "_aot"
    folder.mkdir()
    (folder / "index").write_bytes(write_index({"package": "p", "jax": "0.10.2"}, [], []))
    with pytest.raises(MissingJax, match=r"pip install jax==0\.10\.2"):
        aotbuild.load(folder)
    (folder / "index").write_bytes(write_index({"package": "p", "jax": "0.10.2, 0.12.0.1"}, [], []))
    with pytest.raises(MissingJax) as several:
        aotbuild.load(folder)
    assert "expected jax 0.10.2 or 0.12.0.1, which" in str(several.value)
    assert "Install it: pip install jax==0.10.2 or pip install jax==0.12.0.1" in str(several.value)
