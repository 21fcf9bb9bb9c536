"""Calls of aotbuild's own kernels are recorded as calls of their source functions."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.packages import Built, build, write

import aotbuild
from aotbuild.errors import NoExecutable
from aotbuild.record.recorder import Recorder
from aotbuild.record.recording import RecordedCall, RecordedFunction, Recording

BACKENDS = pytest.mark.parametrize("arrays", ["jax", "numpy"])
X, LARGER = np.ones((2, 4), np.float32), np.ones((3, 4), np.float32)


def scaled(x: Any, k: int = 2) -> Any:
    return x * k


@pytest.fixture(scope="module")
def built() -> list[Built]:
    options: dict[str, Any] = {"call": "kernel_source:g", "positional": ["x", "k"]}
    options["defaults"] = {"k": 2}
    return [
        build("f", lambda x: x * 2, {"x": X}, call="kernel_source:f", donate=["x"]),
        *(build("g", scaled, {"x": X}, statics={"k": k}, **options) for k in (2, 3)),
    ]


@pytest.fixture
def folder(tmp_path: Path, built: list[Built], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a package `demo` that can be imported."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "demo").mkdir()
    made: Path = write(tmp_path / "demo", built)
    return made


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(tmp_path / "calls.jsonl")


def one(found: Recording, call: str) -> tuple[RecordedFunction, dict[str, RecordedCall]]:
    (function,) = (each for each in found.functions.values() if each.call == call)
    return function, found.of(function.key)


def calls_of(found: Recording, call: str) -> list[tuple[list[str], dict[str, Any], int]]:
    return [
        (
            [str(aval) for argument in each.arguments for aval in argument.leaves],
            dict(each.statics),
            found.tally([key]).calls,
        )
        for key, each in one(found, call)[1].items()
    ]


@BACKENDS
def test_each_call(folder: Path, recorder: Recorder, arrays: str) -> None:
    with recorder:
        library = aotbuild.load(folder, arrays=arrays)
        for _ in range(3):
            library.f(X)
        library.g(X)
        library.g(X, 3)
        library.g(x=X, k=3)
    found = recorder.read()
    assert calls_of(found, "kernel_source:f") == [(["f32[2,4]"], {}, 3)]
    assert calls_of(found, "kernel_source:g") == [
        (["f32[2,4]"], {}, 1),
        (["f32[2,4]"], {"k": 3}, 2),
    ]
    assert one(found, "kernel_source:f")[0].donate == ("x",)
    assert one(found, "kernel_source:g")[0].static == ("k",)
    assert len(found.functions) == 2


@BACKENDS
def test_kernels_that_exist_are_watched_until_the_end(
    folder: Path, recorder: Recorder, arrays: str
) -> None:
    library = aotbuild.load(folder, arrays=arrays)
    results = [np.asarray(library.f(X))]
    plain = library.f.__call__
    with recorder:
        results += [np.asarray(library.f(X)) for _ in range(2)]
    results.append(np.asarray(library.f(X)))
    assert library.f.__call__ is plain
    assert calls_of(recorder.read(), "kernel_source:f") == [(["f32[2,4]"], {}, 2)]
    np.testing.assert_array_equal(results, [X * 2] * 4)


def test_results_that_stay_on_the_device(folder: Path, recorder: Recorder) -> None:
    with recorder:
        kernel = aotbuild.load(folder, arrays="numpy").f.keeping()
        kernel(kernel(X))
    assert calls_of(recorder.read(), "kernel_source:f") == [(["f32[2,4]"], {}, 2)]


def test_a_decorated_function_that_was_called_before(folder: Path, recorder: Recorder) -> None:
    decorated: Any = aotbuild.precompiled("demo:f")(jax.jit(lambda x: x * 2))
    decorated(X)
    with recorder:
        decorated(X)
        decorated(X)
    decorated(X)
    assert calls_of(recorder.read(), "kernel_source:f") == [(["f32[2,4]"], {}, 2)]


def test_a_fallback_is_a_call_of_the_kernel(
    folder: Path, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    decorated: Any = aotbuild.precompiled("demo:f")(jax.jit(lambda x: x * 2))
    with recorder:
        with pytest.raises(NoExecutable):
            decorated(LARGER)
        monkeypatch.setenv("AOTBUILD_FALLBACK", "jit")
        decorated(LARGER)
        decorated(LARGER)
    found = recorder.read()
    assert calls_of(found, "kernel_source:f") == [(["f32[3,4]"], {}, 2)]
    tally = found.tally(found.calls)
    assert tally.compiled == 1
    assert tally.compile_seconds > 0


def test_inside_a_transformation_it_is_none(folder: Path, recorder: Recorder) -> None:
    decorated: Any = aotbuild.precompiled("demo:f")(jax.jit(lambda x: x * 2))
    with recorder:
        decorated(X)
        jax.grad(lambda x: decorated(x).sum())(jnp.asarray(X))
        jax.jit(lambda x: decorated(x))(X)
    assert calls_of(recorder.read(), "kernel_source:f") == [(["f32[2,4]"], {}, 1)]


def test_an_imported_source_says_more(
    folder: Path, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    module: Any = types.ModuleType("kernel_source")
    module.g = jax.jit(scaled, static_argnames="k", keep_unused=True)
    monkeypatch.setitem(sys.modules, "kernel_source", module)
    with recorder:
        aotbuild.load(folder).g(X)
    function, _ = one(recorder.read(), "kernel_source:g")
    assert (function.file, function.positional) == (__file__, ("x", "k"))
    assert function.options == {"keep_unused": True}
