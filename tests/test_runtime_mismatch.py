"""Mismatches: the nearest signatures, and per leaf what was expected and found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from runtime_support import ISA, build, write

import aotbuild
from aotbuild.errors import SignatureMismatch

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
        "apply: no signature of 4 fits this call; the nearest:\n"
        f"  1. apply cpu:{ISA}:1\n"
        "     x: expected f32[8,8], found f32[7,8]\n"
        f"  2. apply cpu:{ISA}:1\n"
        "     x: expected f32[2,8], found f32[7,8]\n"
        f"  3. apply cpu:{ISA}:1\n"
        "     x: expected f32[1,8], found f32[7,8]\n"
        "  and 1 more signature\n"
        "Call it with what was compiled, add this signature to the manifest and build again, or "
        "set AOTBUILD_FALLBACK=portable or =jit."
    )


def test_dtype_and_weak_type(library: Any) -> None:
    lines = complaint(library, PARAMS, np.ones((8, 8), "int32"), np.float32(1))
    assert lines[1:3] == [
        "x: expected f32[8,8], found i32[8,8]",
        "scale: expected ~f32[], found f32[]: expected a Python number (weak type)",
    ]


def test_paths_into_trees(library: Any) -> None:
    params = {**PARAMS, "b": [jnp.ones(5), None]}
    lines = complaint(library, params, np.ones((8, 8), "float32"), 1.0)
    assert lines[1] == "params['b'][0]: expected f32[4], found f32[5]"


@pytest.mark.parametrize(
    ("params", "line"),
    [
        ({"w": 1}, "params: expected a dict with keys 'b', 'w', found a dict with keys 'w'"),
        ({**PARAMS, "b": [1.0]}, "params['b']: expected a list of 2, found a list of 1"),
        ({**PARAMS, "b": (1.0, None)}, "params['b']: expected a list of 2, found a tuple of 2"),
        ({**PARAMS, "b": [1.0, 2.0]}, "params['b'][1]: expected None, found an array"),
        ({**PARAMS, "w": None}, "params['w']: expected an array, found None"),
        (1.0, "params: expected a dict with keys 'b', 'w', found an array"),
    ],
)
def test_other_trees(library: Any, params: Any, line: str) -> None:
    assert complaint(library, params, np.ones((8, 8), "float32"), 1.0)[1] == line


def test_many_differences_are_cut(library: Any, tmp_path: Path) -> None:
    given = {"x": [np.float32(1)] * 9}
    built = build("f", lambda x: x[0], given)
    with pytest.raises(SignatureMismatch, match="and 4 more differences"):
        aotbuild.load(write(tmp_path, [built])).f([np.int32(1)] * 9)
