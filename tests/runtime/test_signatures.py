"""One function with several whole signatures: other trees, other ranks, arguments left out."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.packages import Built, build, write

import aotbuild
from aotbuild.errors import SignatureMismatch

X = np.arange(6, dtype="float32").reshape(2, 3)
NAMES = ("x", "scale")


def score(x: Any, scale: Any = 1.0, *, shift: Any = 0.0, power: int = 1) -> Any:
    array = x["a"] - x["b"] if isinstance(x, dict) else x
    return {"y": array**power * scale + shift}


def signatures() -> list[Built]:
    """Return a function with another rank, static value and tree, and arguments left out."""
    found = [
        build("score", score, {"x": X}, statics={"power": 2}),
        build("score", score, {"x": X[0]}, statics={"power": 2}),
        build("score", score, {"x": X}, statics={"power": 3}),
        build("score", score, {"x": X, "scale": X}, statics={"power": 2}),
        build("score", score, {"x": X}, {"shift": X}, statics={"power": 2}),
        build("score", score, {"x": {"a": X, "b": X}}, statics={"power": 2}),
    ]
    function = dataclasses.replace(
        found[0].function,
        positional=NAMES,
        dynamic=NAMES,
        keywords=("shift",),
        optional=("scale", "shift"),
    )
    return [dataclasses.replace(each, function=function) for each in found]


CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((X,), {"power": 2}),
    ((X[0],), {"power": 2}),
    ((X,), {"power": 3}),
    ((X, X), {"power": 2}),
    ((X,), {"shift": X, "power": 2}),
    (({"a": 2 * X, "b": X},), {"power": 2}),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path, signatures())


@pytest.fixture(params=["jax", "numpy"])
def library(folder: Path, request: pytest.FixtureRequest) -> Iterator[aotbuild.Library]:
    found = aotbuild.load(folder, arrays=request.param)
    yield found
    found.close()


def test_each_call_runs_its_own_executable(library: aotbuild.Library) -> None:
    for _ in range(3):
        for args, kwargs in CALLS:
            found = library.score(*args, **kwargs)["y"]
            np.testing.assert_array_equal(found, score(*args, **kwargs)["y"])
    assert (library.stats()["loaded"], library.stats()["refused"]) == (6, 0)


def test_the_cpp_cache_knows_all_of_them(folder: Path) -> None:
    library = aotbuild.load(folder)
    for _ in range(5):
        for args, kwargs in CALLS:
            library.score(*args, **kwargs)
        library.score(X, scale=X, power=2)
    # The last call is written in another way than the one before, and has the same signature.
    assert (library.stats()["misses"], library.stats()["loaded"]) == (7, 6)
    library.close()


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        ((X,), {"power": 4}, "power"),
        ((X, X), {"shift": X, "power": 2}, "called with it"),
        ((), {"scale": X, "power": 2}, "missing a required argument: 'x'"),
        ((X[:1],), {"power": 2}, r"compiled for f32\[2,3\]|f32\[1,3\]"),
    ],
)
def test_what_none_of_them_has_is_refused(
    library: aotbuild.Library, args: Any, kwargs: Any, words: str
) -> None:
    with pytest.raises(SignatureMismatch, match=words):
        library.score(*args, **kwargs)


def test_an_argument_after_one_that_is_left_out_takes_no_others_place(tmp_path: Path) -> None:
    one = build("pair", lambda a, b, c: a + b * 2 + c * 3, {"a": X, "b": X, "c": X})
    two = build("pair", lambda a, b: a + b * 2, {"a": X, "b": X})
    function = dataclasses.replace(one.function, optional=("b", "c"))
    built = [dataclasses.replace(each, function=function) for each in (one, two)]
    library = aotbuild.load(write(tmp_path, built))
    np.testing.assert_array_equal(library.pair(X, X), X * 3)
    with pytest.raises(SignatureMismatch, match="missing a required argument: 'b'"):
        library.pair(X, c=X)
    library.close()
