"""Readiness: what is loaded, what is missing and why; and preloading that insists on all of it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.packages import Built, build, portable, write
from support.processes import fresh

import aotbuild
from aotbuild.errors import AotbuildError, NoExecutable, UnknownFunction
from aotbuild.format.left_out import AllLeftOut, LeftOut, left_out_header
from aotbuild.runtime import loader

X = np.arange(4, dtype=np.float32)
REMEDY = (
    "Install a wheel that was built for this host, or leave these functions out: name the others, "
    "preload('this', 'that', require=True)."
)
BACKENDS = pytest.mark.parametrize("arrays", ["jax", "numpy"])


def double(name: str = "f", **options: Any) -> Built:
    return build(name, lambda x: x * 2, {"x": X}, **options)


def thrice() -> Built:
    return build("g", lambda x: x * 3, {"x": X})


def missing(library: Any, *names: str) -> list[tuple[str, str]]:
    return [(each.function, each.status) for each in library.ready(*names).missing]


class TestReady:
    @BACKENDS
    def test_what_is_loaded_and_what_is_not(self, tmp_path: Path, arrays: str) -> None:
        library = aotbuild.load(write(tmp_path, [double(), thrice()]), arrays=arrays)
        assert missing(library) == [("f", "not loaded"), ("g", "not loaded")]
        assert library.stats()["loaded"] == 0
        library.f(X)
        assert missing(library) == [("g", "not loaded")]
        assert library.ready("f")
        assert not library.ready()
        library.preload()
        ready = library.ready()
        assert (bool(ready), ready.expected, ready.missing) == (True, ready.loaded, ())
        library.close()
        assert missing(library) == [("f", "not loaded"), ("g", "not loaded")]

    def test_its_words(self, tmp_path: Path) -> None:
        library = aotbuild.load(write(tmp_path, [double(), thrice().replace(jaxlib="0.0.1")]))
        library.preload("f")
        found = str(library.ready()).splitlines()
        assert found[0] == "not ready: 1 of 2 signatures are loaded"
        target, jaxlib = thrice().record.target, thrice().record.requires.jaxlib
        reason = f"jaxlib: expected 0.0.1, found {jaxlib}"
        assert found[1:] == [f"  g: refused: {target}: {reason}"]
        assert library.ready().to_dict() == {
            "ready": False,
            "expected": 2,
            "loaded": 1,
            "missing": [
                {
                    "function": "g",
                    "signature": "g",
                    "status": "refused",
                    "reasons": [f"{target}: {reason}"],
                }
            ],
        }
        assert str(library.ready("f")) == "ready: 1 of 1 signatures are loaded"

    @pytest.mark.process
    def test_devices_are_apart(self, tmp_path: Path) -> None:
        code = """
import json, sys
import aotbuild
library = aotbuild.load(sys.argv[1], arrays="numpy")
library.preload()
print(json.dumps([bool(library.ready()), bool(library.on("cpu:1").ready())]))
"""
        folder = str(write(tmp_path, [double()]))
        assert fresh(code, folder, JAX_NUM_CPU_DEVICES="2") == [True, False]

    def test_unknown_names(self, tmp_path: Path) -> None:
        with pytest.raises(UnknownFunction):
            aotbuild.load(write(tmp_path, [double()])).ready("h")

    def test_a_portable_form_beside_executables_is_not_expected(self, tmp_path: Path) -> None:
        fn = lambda x: x * 2  # noqa: E731
        wide = portable(build("f", fn, {"x": np.ones(8, np.float32)}), fn)
        library = aotbuild.load(write(tmp_path, [double(), wide]))
        library.preload(require=True)
        assert library.ready()

    def test_a_function_of_portable_forms_alone(self, tmp_path: Path) -> None:
        library = aotbuild.load(write(tmp_path, [portable(double(), lambda x: x * 2)]))
        assert missing(library) == [("f", "refused")]

    def test_what_was_left_out(self, tmp_path: Path) -> None:
        unit = LeftOut("f", "f(batch=8)", "cpu:x86-64-v3:1", "trace", "TypeError: no", None, None)
        header = left_out_header(AllLeftOut((unit,)))
        library = aotbuild.load(write(tmp_path, [double()], **header))
        library.preload()
        (found,) = library.ready().missing
        assert str(found) == (
            "f(batch=8): left out: cpu:x86-64-v3:1 was left out of this wheel when it was built: "
            "trace: TypeError: no"
        )
        with pytest.raises(NoExecutable, match=r"f\(batch=8\)"):
            library.preload(require=True)


class TestProgress:
    @BACKENDS
    @pytest.mark.parametrize("prime", [False, True, "once"])
    def test_of_a_preload_in_the_background(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arrays: str, prime: Any
    ) -> None:
        library = aotbuild.load(write(tmp_path, [double(), thrice()]), arrays=arrays)
        library.preload("f")
        go_on, real = threading.Event(), loader.read_blob

        def read_later(*args: Any) -> bytes:
            assert go_on.wait(60)
            return real(*args)

        monkeypatch.setattr(loader, "read_blob", read_later)
        preloading = library.preload("g", prime=prime, wait=False)
        assert missing(library) == [("g", "loading")]
        go_on.set()
        preloading.wait()
        assert library.ready()

    def test_what_waits_to_be_run_is_not_ready(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from aotbuild.runtime.numpy.executables import NumpyExecutable

        library = aotbuild.load(write(tmp_path, [double()]), arrays="numpy")
        library.preload()
        go_on, real = threading.Event(), NumpyExecutable.run_on_zeros

        def run_later(self: Any) -> list[Any]:
            assert go_on.wait(60)
            return real(self)

        monkeypatch.setattr(NumpyExecutable, "run_on_zeros", run_later)
        preloading = library.preload(prime=True, wait=False)
        assert missing(library) == [("f", "loading")]
        go_on.set()
        preloading.wait()
        assert library.ready()

    @BACKENDS
    def test_of_one_that_fails(self, tmp_path: Path, arrays: str) -> None:
        built = [double(), thrice()]
        folder = write(tmp_path, built)
        blob = folder / built[1].record.blob.path
        data = blob.read_bytes()
        blob.write_bytes(b"damaged")
        library = aotbuild.load(folder, arrays=arrays)
        with pytest.raises(AotbuildError):
            library.preload(wait=False).wait()
        (found,) = library.ready().missing
        assert (found.function, found.status) == ("g", "failed")
        assert "not the bytes that were built" in str(found)
        blob.write_bytes(data)
        library.g(X)
        assert library.ready()

    def test_one_that_was_stopped_is_not_waited_for(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        library = aotbuild.load(write(tmp_path, [double()]))
        real = loader.read_blob
        monkeypatch.setattr(loader, "read_blob", lambda *args: fail())

        def fail() -> bytes:
            raise MemoryError

        with pytest.raises(MemoryError):
            library.preload()
        assert missing(library) == [("f", "not loaded")]
        monkeypatch.setattr(loader, "read_blob", real)
        assert library.preload() == 1


class TestRequire:
    @BACKENDS
    def test_all_are_there(self, tmp_path: Path, arrays: str) -> None:
        library = aotbuild.load(write(tmp_path, [double(), thrice()]), arrays=arrays)
        assert library.preload(require=True) == 2

    @BACKENDS
    @pytest.mark.parametrize("wait", [True, False])
    def test_each_is_named(self, tmp_path: Path, arrays: str, wait: bool) -> None:
        built = [
            double(),
            thrice().replace(jaxlib="0.0.1"),
            double("h").replace(platforms=("tpu",), isa=None),
        ]
        library = aotbuild.load(write(tmp_path, built), arrays=arrays)
        with pytest.raises(NoExecutable) as caught:
            library.preload(require=True, wait=wait)
        target, jaxlib = built[0].record.target, built[0].record.requires.jaxlib
        assert str(caught.value).splitlines() == [
            "g, h: 2 of 3 signatures have no executable here",
            f"  g: {target}: jaxlib: expected 0.0.1, found {jaxlib}",
            "  h: tpu:v5e:1x1:1: platform: expected tpu, found cpu",
            REMEDY,
        ]
        assert library.stats()["loaded"] == 0
        assert library.preload("f", require=True) == 1
        assert library.preload() == 0
