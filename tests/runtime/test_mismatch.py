"""Mismatches: the nearest signatures, and per leaf what was expected and found."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.core import FrozenDict
from support.packages import Built, build, write

import aotbuild
from aotbuild.errors import InvalidArgument, SignatureMismatch

PARAMS = {"w": np.ones((8, 4), "float32"), "b": [np.ones(4, "float32"), None]}


def apply(params: Any, x: Any, scale: Any) -> Any:
    return (x @ params["w"] + params["b"][0]) * scale


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder: Path = tmp_path_factory.mktemp("mismatch")
    sizes = (1, 2, 8, 64)
    inputs = [{"params": PARAMS, "x": np.ones((n, 8), "float32"), "scale": 1.0} for n in sizes]
    return aotbuild.load(write(folder, [build("apply", apply, given) for given in inputs]))


def complaint(library: Any, *args: Any) -> list[str]:
    with pytest.raises(SignatureMismatch) as caught:
        library.apply(*args)
    return [line.strip() for line in caught.value.trace]


def test_the_whole_message(library: Any) -> None:
    with pytest.raises(SignatureMismatch) as caught:
        library.apply(PARAMS, np.ones((7, 8), "float32"), 1.0)
    assert str(caught.value) == (
        "apply: no signature of 4 fits this call; the nearest is apply\n"
        "  x: expected f32[8,8], f32[2,8], f32[1,8] or f32[64,8], found f32[7,8]\n"
        "Call it with what was compiled, or add this call to the manifest and build again."
    )


def test_dtype_and_weak_type(library: Any) -> None:
    lines = complaint(library, PARAMS, np.ones((8, 8), "int32"), np.float32(1))
    assert lines == [
        "x: expected f32[8,8], f32[2,8], f32[1,8] or f32[64,8], found i32[8,8]",
        "scale: expected ~f32[], found f32[]: expected a Python number, or a weakly typed array",
    ]


def test_paths_into_trees(library: Any) -> None:
    params = {**PARAMS, "b": [jnp.ones(5), None]}
    lines = complaint(library, params, np.ones((8, 8), "float32"), 1.0)
    assert lines == ["params['b'][0]: expected f32[4], found f32[5]"]


@pytest.mark.parametrize(
    ("params", "line"),
    [
        ({"w": 1}, "params: missing 'b'"),
        ({**PARAMS, "b": [1.0]}, "params['b']: expected a list of 2, found a list of 1"),
        ({**PARAMS, "b": (1.0, None)}, "params['b']: expected a list of 2, found a tuple of 2"),
        ({**PARAMS, "b": [1.0, 2.0]}, "params['b'][1]: expected None, found an array"),
        # As `os.listdir` gives it for bytes that are no UTF-8.
        ({**PARAMS, "\udcff": 1}, "params: unexpected '\\udcff'"),
        ({**PARAMS, "w": None}, "params['w']: expected an array, found None"),
        (1.0, "params: expected a dict with keys 'b', 'w', found an array"),
    ],
)
def test_other_trees(library: Any, params: Any, line: str) -> None:
    assert complaint(library, params, np.ones((8, 8), "float32"), 1.0) == [line]


@pytest.mark.parametrize(
    ("arrays", "kind"), [("jax", FrozenDict), *product(["jax", "numpy"], [dict, OrderedDict])]
)
def test_few_other_names_of_many(tmp_path: Path, arrays: Any, kind: Any) -> None:
    """A message names at most ten that are missing, and ten that are not expected."""
    x = np.ones(2, "float32")
    names = [f"layer{number:03d}" for number in range(192)]
    tree = kind(dict.fromkeys(names, x))
    built = build("f", lambda p: p[0]["layer000"] + p[0]["layer191"], {"p": [tree]})
    f = aotbuild.load(write(tmp_path, [built]), arrays=arrays).f

    def lines(*names: str) -> list[str]:
        with pytest.raises(SignatureMismatch) as caught:
            f([kind(dict.fromkeys(names, x))])
        return list(caught.value.trace)

    assert lines(*names[:-1], "layers191") == [
        "p[0]: missing 'layer191'",
        "p[0]: unexpected 'layers191' (did you mean 'layer191'?)",
    ]
    assert lines(*names, "zzz") == ["p[0]: unexpected 'zzz'"]
    missing, unexpected = lines(*(name.replace("r", "-") for name in names))
    assert missing.endswith("'layer008', 'layer009', and 182 more")
    assert unexpected.endswith("'laye-009' (did you mean 'layer009'?), and 182 more")


def test_keywords_after_other_positional_arguments(tmp_path: Path) -> None:
    one = np.ones(4, "float32")
    built = build("f", lambda x, y, k: x + y + k[0], {"x": one, "y": one}, {"k": (one,)})
    built = replace(built, function=replace(built.function, optional=("y",)))
    with pytest.raises(SignatureMismatch) as caught:
        aotbuild.load(write(tmp_path, [built])).f(one, k=([one],))
    lines = [line.strip() for line in caught.value.trace]
    without, other = (
        "y: compiled with it, called without",
        "k[0]: expected an array, found a list of 1",
    )
    assert lines == [without, other]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Named:
    x: Any
    name: str = field(metadata={"static": True})


def test_static_texts_that_begin_alike(tmp_path: Path) -> None:
    here, there = (Named(np.ones(2, "float32"), "long " * 30 + end) for end in "ab")
    f = aotbuild.load(write(tmp_path, [build("f", lambda p: p.x, {"p": here})])).f
    with pytest.raises(SignatureMismatch, match=r"p.name: .*long a', called with .*long b"):
        f(there)


def test_many_differences_are_cut(tmp_path: Path) -> None:
    given = {"x": [np.ones(n, "float32") for n in range(9)]}
    built = build("f", lambda x: x[0], given)
    with pytest.raises(SignatureMismatch, match="and 3 more differences"):
        aotbuild.load(write(tmp_path, [built])).f([np.ones(n + 1, "float32") for n in range(9)])


def labeled(size: int, mode: str) -> Built:
    x, names = {"x": np.ones((size, 4), "float32")}, ["x", "mode"]
    made = build("f", lambda x, mode: x * len(mode), x, statics={"mode": mode}, positional=names)
    label = f"f(batch={size}, mode={mode!r})"
    return replace(made, record=replace(made.record, provenance={"label": label}))


@pytest.mark.parametrize(
    ("size", "mode", "nearest", "line"),
    [
        (2, "a", "f(batch=1, mode='a')", "x: expected f32[1,4] or f32[8,4], found f32[2,4]"),
        (9, "b", "f(batch=8, mode='b')", "x: expected f32[8,4] or f32[1,4], found f32[9,4]"),
    ],
)
def test_the_nearest_is_named(
    tmp_path: Path, size: int, mode: str, nearest: str, line: str
) -> None:
    items = [labeled(*each) for each in ((1, "a"), (8, "a"), (8, "b"))]
    f = aotbuild.load(write(tmp_path, items)).f
    with pytest.raises(SignatureMismatch) as caught:
        f(np.ones((size, 4), "float32"), mode)
    assert caught.value.summary.endswith(f"; the nearest is {nearest}")
    assert caught.value.trace == (line,)


@pytest.mark.parametrize("arrays", ["jax", "numpy"])
def test_the_order_of_bytes(tmp_path: Path, arrays: Any) -> None:
    x = np.ones(3, np.float32)
    f = aotbuild.load(write(tmp_path, [build("f", lambda x: x, {"x": x})]), arrays=arrays).f
    other = x.astype(x.dtype.newbyteorder())
    with pytest.raises(InvalidArgument, match=r"x.astype\(x.dtype.newbyteorder\("):
        f(other)
    f(other.astype(other.dtype.newbyteorder("=")))
