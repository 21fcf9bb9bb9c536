"""What the guard says: where, with which arguments, why no executable ran, and what to do."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from support.guarded import OTHER, SOURCE, X, source
from support.packages import Built, build, write

import aotbuild
from aotbuild.errors import CompilationForbidden

__all__ = ["source"]  # a fixture

guard = aotbuild.guard


@pytest.fixture(scope="module")
def built() -> Built:
    return build("double", lambda x: x * 2, {"x": X}, call="guarded_source:double")


class TestMessage:
    def test_a_function_that_no_package_has(self, source: Any, tmp_path: Path) -> None:
        with guard("raise"), pytest.raises(CompilationForbidden) as caught:
            source.double(X)
        line = inspect.currentframe().f_lineno - 1  # type: ignore[union-attr]
        caller = f"{__file__}:{line} in test_a_function_that_no_package_has"
        first, last = str(caught.value).split("  no loaded package has it; loaded: ")
        assert first.splitlines() == [
            "guarded_source:double: tracing is forbidden here by aotbuild.guard",
            f"  defined at {tmp_path / 'guarded_source.py'}:4",
            f"  called at {caller}",
            "  called with x: f32[2,4]",
        ]
        assert last.endswith(
            "\nAdd it to the manifest, as `aotbuild record` does, and build again. "
            "To permit it: `with aotbuild.guard.allow():`."
        )
        assert (caught.value.kind, caught.value.caller) == ("tracing", caller)

    def test_the_library_between(self, source: Any, tmp_path: Path) -> None:
        installed = tmp_path / "site-packages"
        installed.mkdir()
        code = compile(SOURCE, str(installed / "between.py"), "exec")
        names: dict[str, Any] = {"__name__": "between"}
        exec(code, names)
        with guard("raise"), pytest.raises(CompilationForbidden) as caught:
            names["call"](names["double"], X)
        assert caught.value.caller.startswith(f"{__file__}:")
        assert caught.value.caller.endswith(f", through {installed / 'between.py'}:9 in call")


class TestKernels:
    @pytest.fixture
    def library(self, tmp_path: Path, built: Built, source: Any) -> Iterator[Any]:
        library = aotbuild.load(write(tmp_path, [built]))
        yield library
        library.close()

    def test_loading_and_calling_is_permitted(self, library: Any) -> None:
        with guard("raise"):
            assert library.preload() == 1
            np.testing.assert_array_equal(library.double(X), X * 2)
            library.double(jax.device_put(X))

    def test_the_source_of_what_is_compiled(self, library: Any, source: Any) -> None:
        with guard("raise"), pytest.raises(CompilationForbidden) as caught:
            source.double(X)
        assert caught.value.trace == (
            "demo:double is in a loaded package, but its source was called",
        )
        assert 'Call `aotbuild.load("demo").double`' in caught.value.remedy

    def test_a_fallback_is_compiling_as_any_other(
        self, library: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AOTBUILD_FALLBACK", "jit")
        with guard("raise"):
            with pytest.raises(CompilationForbidden) as caught:
                library.double(OTHER)
            with guard.allow():
                library.double(OTHER)
        assert caught.value.trace[0] == (
            "demo:double: fallback jit: no signature of 1 fits this call; the nearest is double"
        )

    @pytest.mark.parametrize(
        "transform", [jax.vmap, lambda f: lambda x: jax.jvp(f, (x,), (x,))], ids=["vmap", "jvp"]
    )
    def test_inside_a_transformation(self, library: Any, transform: Any) -> None:
        call = transform(library.double)
        with guard("raise"):
            with pytest.raises(CompilationForbidden) as caught:
                call(X)
            assert "demo:double: it was called inside a JAX transformation" in str(caught.value)
            assert "Call it outside of the transformation" in caught.value.remedy
            with guard.allow():
                call(X)
            call(X)  # nothing is compiled any more
