"""Preloading without waiting: the caller goes on, and calls wait for what they need."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
import pytest
from support.packages import build, write
from support.processes import fresh

import aotbuild
from aotbuild.errors import DamagedBlob, UnknownFunction
from aotbuild.runtime.preloading import Preloading

X = np.arange(4, dtype=np.float32)
BACKENDS = pytest.mark.parametrize("arrays", ["jax", "numpy"])


def package(tmp_path: Path) -> Path:
    twice, thrice = lambda x: x * 2, lambda x: x * 3
    return write(tmp_path, [build("f", twice, {"x": X}), build("g", thrice, {"x": X})])


class TestReady:
    @BACKENDS
    @pytest.mark.parametrize("prime", [False, True])
    def test_a_call_gets_what_is_being_loaded(
        self, tmp_path: Path, arrays: str, prime: bool
    ) -> None:
        library = aotbuild.load(package(tmp_path), arrays=arrays)
        loading = library.preload(prime=prime, wait=False)
        np.testing.assert_array_equal(library.f(X), X * 2)
        loading.wait()
        assert loading.done
        np.testing.assert_array_equal(library.g(X), X * 3)
        stats = library.stats()
        assert (stats["loaded"], stats["primed"]) == (2, 2 if prime else 0)

    @BACKENDS
    def test_nothing_is_new_the_second_time(self, tmp_path: Path, arrays: str) -> None:
        library = aotbuild.load(package(tmp_path), arrays=arrays)
        assert library.preload("f", wait=False).wait() == 1
        assert library.preload(wait=False).wait() == 1
        assert library.preload() == 0

    def test_the_caller_goes_on(self) -> None:
        go_on = threading.Event()
        loading = Preloading(lambda _: 3 if go_on.wait(60) else 0)
        assert not loading.done
        with pytest.raises(TimeoutError, match="still being loaded"):
            loading.wait(0)
        go_on.set()
        assert loading.wait() == 3

    @BACKENDS
    @pytest.mark.process
    def test_a_process_may_end_before(self, tmp_path: Path, arrays: str) -> None:
        """And nothing is logged behind its last line."""
        code = """
import logging, sys
import aotbuild
logging.basicConfig(stream=sys.stdout)
library = aotbuild.load(sys.argv[1], arrays=sys.argv[2])
library.preload(prime=True, wait=False)
print("null", flush=True)
"""
        assert fresh(code, str(package(tmp_path)), arrays) is None

    def test_it_is_told_to_stop(self) -> None:
        def work(goes_on: Callable[[], bool]) -> int:
            while goes_on():
                threading.Event().wait(0)
            return 3

        loading = Preloading(work)
        assert not loading.done
        loading.stop()
        assert (loading.done, loading.wait()) == (True, 3)

    @BACKENDS
    def test_closing_ends_it(self, tmp_path: Path, arrays: str) -> None:
        library = aotbuild.load(package(tmp_path), arrays=arrays)
        loading = library.preload(wait=False)
        library.close()
        assert loading.done
        loading.wait()
        np.testing.assert_array_equal(library.f(X), X * 2)


class TestSettings:
    """Some settings of jax are a thread's own."""

    @pytest.mark.parametrize("wait", [True, False])
    def test_x64(self, tmp_path: Path, wait: bool) -> None:
        x = np.arange(4) / 3
        with jax.enable_x64(True):
            functions = [("f", lambda x, c: x + c), ("g", lambda x, c: x * c)]
            built = [build(name, fn, {"x": x}, constants={"c": x}) for name, fn in functions]
            library = aotbuild.load(write(tmp_path, built))
            loading = library.preload(wait=wait)
            assert (loading if wait else loading.wait()) == 2
            np.testing.assert_array_equal(library.f(x), x + x)
            np.testing.assert_array_equal(library.g(x), x * x)

    @pytest.mark.parametrize("wait", [True, False])
    def test_the_default_device(self, tmp_path: Path, wait: bool) -> None:
        device = jax.devices()[-1]
        library = aotbuild.load(package(tmp_path))
        with jax.default_device(device):
            loading = library.preload(prime=True, wait=wait)
            assert (loading if wait else loading.wait()) == 2
            assert library.f(X).devices() == {device}
        assert library.stats()["loaded"] == 2
        assert library.stats()["misses"] == 0


class TestFailures:
    def test_an_unknown_function_is_told_at_once(self, tmp_path: Path) -> None:
        with pytest.raises(UnknownFunction):
            aotbuild.load(package(tmp_path)).preload("h", wait=False)

    @BACKENDS
    def test_wait_raises_what_went_wrong(
        self, tmp_path: Path, arrays: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        folder = package(tmp_path)
        library = aotbuild.load(folder, arrays=arrays)
        (folder / library.f.records[0].blob.path).write_bytes(b"damaged")
        with caplog.at_level(logging.WARNING, "aotbuild"):
            loading = library.preload(wait=False)
            with pytest.raises(DamagedBlob):
                loading.wait()
        assert "preload(wait=False): " in caplog.text
        with pytest.raises(DamagedBlob):
            library.f(X)
        np.testing.assert_array_equal(library.g(X), X * 3)
