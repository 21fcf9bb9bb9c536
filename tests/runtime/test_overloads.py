"""Overloads: a call of one entry of the manifest runs another, if that one has its signature."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from threading import local
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.packages import Built, build, portable, write

import aotbuild
from aotbuild.errors import SignatureMismatch
from aotbuild.format.record import Template
from aotbuild.format.tree import Describer

X = np.arange(6, dtype="float32").reshape(2, 3)


def score(x: Any, scale: Any = 1.0, *, power: int = 1) -> Any:
    return {"y": x**power * scale}


def pair(xs: Any) -> Any:
    return xs[0] + xs[1]


@jax.tree_util.register_pytree_node_class
class Box:
    """A node with static data that only the process that calls can compare."""

    def __init__(self, array: Any, data: object) -> None:
        self.array, self.data = array, data

    def tree_flatten(self) -> tuple[tuple[Any, ...], object]:
        return (self.array,), self.data

    @classmethod
    def tree_unflatten(cls, data: object, children: tuple[Any, ...]) -> Box:
        return cls(*children, data)


LIKE_A, LIKE_B = Box(X, local()), Box(X, local())


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


@pytest.mark.parametrize("arrays", ["jax", "numpy"])
def test_calls_are_counted_by_what_ran(folder: Path, arrays: Any) -> None:
    library = aotbuild.load(folder, arrays=arrays)
    library.count_calls()
    for args, kwargs in CALLS:
        library.score(*args, **kwargs)
    assert library.stats()["calls"]["score"] == {
        "f32[2,3], power=2": 1,
        "f32[3], power=2": 1,
        "f32[2,3], power=3": 1,
        "f32[2,3], f32[2,3], power=2": 1,
    }
    library.close()


def test_priming_enters_calls_of_the_overloads_into_the_cache(library: aotbuild.Library) -> None:
    library.preload("score", prime=True)
    for args, kwargs in CALLS:
        library.score(*args, **kwargs)
    assert library.stats()["misses"] == 0


def test_overloads_that_lie_are_passed_over(tmp_path: Path) -> None:
    """An index of nobody's build: a cycle, an entry that names itself, another call and wrap."""
    cycle = named(build("a", score, {"x": X}), "b", ("a", "b", "c", "d"))
    back = named(build("b", score, {"x": X[0]}), "a", ("a", "b"))
    call = named(build("c", score, {"x": X[:, 0]}, call="other:function"), "a")
    wrap = named(build("d", score, {"x": X[0, 0]}), "a")
    wrap = dataclasses.replace(wrap, function=dataclasses.replace(wrap.function, wrap="nnx.jit"))
    library = aotbuild.load(write(tmp_path, [cycle, back, call, wrap]))
    np.testing.assert_array_equal(library.a(X[0])["y"], X[0])
    np.testing.assert_array_equal(library.b(X)["y"], X)
    for x in (X[:, 0], X[0, 0]):
        with pytest.raises(SignatureMismatch):
            library.a(x)
    library.close()


def test_the_portable_form_of_an_overload(tmp_path: Path) -> None:
    (size,) = jax.export.symbolic_shape("n")
    first, flat, *_ = entries()
    shape = jax.ShapeDtypeStruct((size,), "float32")
    any_size = portable(flat, lambda x: score(x, power=2), shape, symbolic=True)
    library = aotbuild.load(write(tmp_path, [first, flat, any_size], fallback="portable"))
    x = np.arange(5, dtype="float32")
    np.testing.assert_array_equal(library.score(x, power=2)["y"], x**2)
    assert library.stats()["fallbacks"]["portable"] == 1
    with pytest.raises(SignatureMismatch, match="no signature of 1 fits"):
        library.score(x, power=3)
    library.close()


def test_static_data_of_another_template(tmp_path: Path) -> None:
    def compared(name: str, like: str, sign: int) -> Built:
        box = globals()[like]
        built = build(name, lambda x: x * sign, {"x": X})
        references = (("x", (0, 0), None, f"{__name__}:{like}"),)
        treedef = jax.tree_util.tree_structure(((box,), {}))
        tree = Describer(references=references).describe(treedef)
        calling = dataclasses.replace(
            built.record.calling, templates=(Template(references[0][3], (), (0, 0)),)
        )
        record = dataclasses.replace(
            built.record,
            signature=dataclasses.replace(built.record.signature, tree=tree),
            calling=calling,
        )
        function = dataclasses.replace(built.function, references=references)
        return dataclasses.replace(built, function=function, record=record)

    first = named(compared("first", "LIKE_A", 1), "", ("other",))
    other = named(compared("other", "LIKE_B", -1), "first")
    library = aotbuild.load(write(tmp_path, [first, other]))
    np.testing.assert_array_equal(library.first(LIKE_A), X)
    np.testing.assert_array_equal(library.first(LIKE_B), -X)
    with pytest.raises(SignatureMismatch, match="static data is not what was compiled"):
        library.first(Box(X, local()))
    library.close()
