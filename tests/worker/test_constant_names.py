"""Names of hoisted constants: where the user's code keeps each array."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.projects import build, write_project

from aotbuild.runtime.source import DirectorySource, open_index

pytestmark = pytest.mark.process

WEIGHTS = """
import numpy as np, jax.numpy as jnp
TABLE = np.arange(64, dtype=np.float32).reshape(8, 8)
WIDE = np.arange(64.0).reshape(8, 8) + 1
PARAMS = {"layers": [
    {"w": jnp.ones((8, 8)), "b": jnp.zeros(64)[:64]}, {"w": jnp.ones((8, 8)), "b": jnp.zeros(64)},
]}
class Model:
    def __init__(self):
        self.scale = jnp.full((8, 8), 3.0)
    def __call__(self, x):
        return x @ self.scale
MODEL = Model()
"""
MODEL = """
import jax, jax.numpy as jnp, numpy as np
from proj import weights
from proj.weights import MODEL, PARAMS
ALIAS = PARAMS
def globals_(x):
    for layer in PARAMS["layers"]:
        x = jnp.tile(x @ layer["w"], 8) + layer["b"]
        x = x[:, :8]
    return x @ weights.TABLE
def wide(x):
    return x @ weights.WIDE
def make(params, other=np.full((8, 8), 2, np.float32)):
    def closed(x):
        return x @ params["w"] @ other
    return closed
closed = make({"w": jnp.eye(8)})
def computed(x):
    return x @ (weights.TABLE * 2)
"""
MANIFEST = """
version: 1
package: proj
targets: [cpu]
defaults: {verify: {golden: never}, purity: skip, constants: hoist}
functions:
  globals: {call: "proj.model:globals_", args: [x: "f32[2,8]"]}
  wide: {call: "proj.model:wide", args: [x: "f32[2,8]"]}
  closed: {call: "proj.model:closed", args: [x: "f32[2,8]"]}
  method: {call: "proj.model:MODEL", args: [x: "f32[2,8]"]}
  computed: {call: "proj.model:computed", args: [x: "f32[2,8]"]}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = write_project(tmp_path_factory.mktemp("names"), MANIFEST, model=MODEL)
    (root / "proj" / "weights.py").write_text(WEIGHTS)
    return build(root).folder


def names(folder: Path, function: str) -> list[str]:
    [record] = open_index(DirectorySource(folder)).records(function)
    return sorted(constant.name for constant in record.calling.constants)


def test_variables_of_the_module_that_defines_them(folder: Path) -> None:
    """Neither a module that imports them nor another variable gives them its name."""
    assert names(folder, "globals") == [
        "proj.weights.PARAMS.layers.0.b",
        "proj.weights.PARAMS.layers.0.w",
        "proj.weights.PARAMS.layers.1.b",
        "proj.weights.PARAMS.layers.1.w",
        "proj.weights.TABLE",
    ]


def test_an_array_that_jax_narrows(folder: Path) -> None:
    assert names(folder, "wide") == ["proj.weights.WIDE"]


def test_closures(folder: Path) -> None:
    assert names(folder, "closed") == ["proj.model.closed.other", "proj.model.closed.params.w"]


def test_attributes_of_an_object(folder: Path) -> None:
    assert names(folder, "method") == ["proj.weights.MODEL.scale"]


def test_what_was_computed_while_tracing_has_no_name(folder: Path) -> None:
    [name] = names(folder, "computed")
    assert name.startswith("unnamed.")
