"""Overloads: a call of one entry of the manifest runs another, if that one has its signature."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.packages import Built, build, write

import aotbuild
from aotbuild.errors import SignatureMismatch

X = np.arange(6, dtype="float32").reshape(2, 3)


def score(x: Any, scale: Any = 1.0, *, power: int = 1) -> Any:
    return {"y": x**power * scale}


def pair(xs: Any) -> Any:
    return xs[0] + xs[1]


def named(built: Built, first: str = "", others: tuple[str, ...] = ()) -> Built:
    function = dataclasses.replace(built.function, overload_of=first, overloads=others)
    return dataclasses.replace(built, function=function)


def entries() -> list[Built]:
    """Return a function and its overloads: another rank, another static value, another tree."""
    flat = {"x": X[0]}
    return [
        named(build("score", score, {"x": X}, statics={"power": 2}), "", ("flat", "cubed", "two")),
        named(build("flat", score, flat, statics={"power": 2}), "score"),
        named(build("cubed", score, {"x": X}, statics={"power": 3}), "score"),
        named(build("two", score, {"x": X, "scale": X}, statics={"power": 2}), "score"),
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path, entries())


@pytest.fixture
def library(folder: Path) -> Iterator[aotbuild.Library]:
    with_jax = aotbuild.load(folder)
    yield with_jax
    with_jax.close()


CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((X,), {"power": 2}),
    ((X[0],), {"power": 2}),
    ((X,), {"power": 3}),
    ((X, X), {"power": 2}),
]


@pytest.mark.parametrize(("args", "kwargs"), CALLS)
def test_the_entry_that_has_the_call_runs(
    library: aotbuild.Library, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    for _ in range(3):
        found = library.score(*args, **kwargs)["y"]
        np.testing.assert_array_equal(found, score(*args, **kwargs)["y"])
    assert library.stats()["refused"] == 0
    assert library.stats()["loaded"] == 1


def test_the_cache_of_the_first_entry_knows_the_calls_of_the_others(
    library: aotbuild.Library,
) -> None:
    for _ in range(5):
        library.score(X[0], power=2)
        library.score(X, power=3)
    assert library.stats()["misses"] == 2


def test_numpy_arrays(folder: Path) -> None:
    library = aotbuild.load(folder, arrays="numpy")
    for args, kwargs in CALLS:
        found = library.score(*args, **kwargs)["y"]
        np.testing.assert_array_equal(found, score(*args, **kwargs)["y"])
    library.close()


def test_what_no_entry_has_is_told_of_the_first(library: aotbuild.Library) -> None:
    with pytest.raises(SignatureMismatch) as caught:
        library.score(X, power=4)
    text = str(caught.value)
    assert text.startswith("score: no signature of 1 fits this call")
    assert "nor has its overload flat one" in text


def test_explain_names_the_entry_that_runs(library: aotbuild.Library) -> None:
    assert str(library.explain("score", X[0], power=2)).startswith("score: runs flat")
    assert str(library.explain("score", X, power=2)).startswith("score: runs score")


def test_an_overload_does_not_serve_by_way_of_another(library: aotbuild.Library) -> None:
    with pytest.raises(SignatureMismatch):
        library.flat(X, power=3)


def test_preload_and_readiness_take_the_overloads_along(library: aotbuild.Library) -> None:
    assert library.preload("score") == 4
    assert library.ready("score")


def test_inside_a_transformation_the_source_is_called(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "__init__.py").touch()
    write(tmp_path / "demo", entries())
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(tmp_path))
        kernel = aotbuild.precompiled("demo:score")(score)
        found = jax.jit(lambda x: kernel(x, power=3)["y"])(X)
        np.testing.assert_array_equal(found, X**3)
        np.testing.assert_array_equal(kernel(X, power=3)["y"], X**3)
        np.testing.assert_array_equal(kernel(jnp.asarray(X[0]), power=2)["y"], X[0] ** 2)


def test_an_overload_that_is_not_there_is_passed_over(tmp_path: Path) -> None:
    first, *_ = entries()
    library = aotbuild.load(write(tmp_path, [first]))
    np.testing.assert_array_equal(library.score(X, power=2)["y"], X**2)
    with pytest.raises(SignatureMismatch):
        library.score(X, power=3)
    assert library.preload("score") == 0
    library.close()


def test_another_container_around_the_same_arrays(tmp_path: Path) -> None:
    lists = named(build("pair", pair, {"xs": [X, X]}), "", ("tuples",))
    tuples = named(build("tuples", pair, {"xs": (X, X)}), "pair")
    library = aotbuild.load(write(tmp_path, [lists, tuples]))
    for _ in range(2):
        for container in ([X, X], (X, X)):
            np.testing.assert_array_equal(library.pair(container), X + X)
    assert library.stats()["misses"] == 2
    library.close()
