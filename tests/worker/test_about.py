"""What a function says of its source: docstring, parameters, names of leaves, dims."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.projects import build, write_project

from aotbuild.format.about import About, argument_names, result_names
from aotbuild.runtime.source import DirectorySource, open_index

pytestmark = pytest.mark.process

MODEL = '''
import dataclasses, functools, os
from typing import NamedTuple
import jax, jax.numpy as jnp

class Head(NamedTuple):
    w: jax.Array
    b: jax.Array

@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Params:
    layers: list
    head: Head

def init():
    return Params([{"w": jnp.ones((4, 4))}], Head(jnp.ones((4, 2)), None))

@functools.partial(jax.jit, static_argnames=("mode",))
def predict(params, x, /, scale=1.0, *, mode="relu", norm=jnp.tanh, hook=lambda x: x):
    """Return the scores.

    Args:
        x: One row each.
    """
    return {"scores": getattr(jax.nn, mode)(x @ params.layers[0]["w"]) @ params.head.w}

def kept(params):
    return params, Head(params.head.w, 1.0)

def secret(x, file=__file__):
    return x
secret.__doc__ = f"Read {os.path.abspath(__file__)}."

class Model:
    """A model."""
    def __call__(self, x):
        """Return twice x."""
        return x * 2
double = Model()
part = functools.partial(predict, mode="relu")
long = lambda x: x
long.__doc__ = "a" * 10_000
'''
MANIFEST = """
version: 1
package: proj
targets: [cpu]
functions:
  predict:
    call: proj.model:predict
    args: [params: {like: "proj.model:init"}, x: "f32[batch, 4]"]
    static: {mode: [relu]}
    dims: {batch: [1, 2]}
  kept: {call: "proj.model:kept", args: [params: {like: "proj.model:init"}]}
  secret: {call: "proj.model:secret", args: [x: "f32[2]"]}
  double: {call: "proj.model:double", args: [x: "f32[2]"]}
  long: {call: "proj.model:long", args: [x: "f32[2]"]}
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return build(write_project(tmp_path_factory.mktemp("about"), MANIFEST, model=MODEL))


def about_of(package: Any, name: str) -> About:
    function = open_index(DirectorySource(Path(package.folder))).function(name)
    assert function is not None
    return About.from_json(function.about)


def test_the_docstring_is_kept_as_help_shows_it(package: Any) -> None:
    doc = "Return the scores.\n\nArgs:\n    x: One row each."
    assert about_of(package, "predict").doc == doc
    assert about_of(package, "kept").doc == ""
    assert about_of(package, "double").doc == "Return twice x."
    assert about_of(package, "long").doc == "a" * 3_999 + "…"


def test_parameters_have_kinds_and_defaults(package: Any) -> None:
    assert [parameter.to_json() for parameter in about_of(package, "predict").parameters] == [
        ["params", "positional_only"],
        ["x", "positional_only"],
        ["scale", "positional_or_keyword", 1.0],
        ["mode", "keyword_only", "relu"],
        ["norm", "keyword_only", {"name": "jax.numpy:tanh"}],
        ["hook", "keyword_only", {"unknown": True}],
    ]


def test_a_path_of_this_machine_is_left_out_and_a_note_says_so(package: Any) -> None:
    about = about_of(package, "secret")
    assert about.doc == ""
    assert about.parameters[1].to_json() == ["file", "positional_or_keyword", {"unknown": True}]
    note = "secret(): its docstring names a path of this machine: left out"
    assert note in package.notes


def test_leaves_have_the_names_that_jax_gives_them(package: Any) -> None:
    index = open_index(DirectorySource(Path(package.folder)))
    params = ["params.layers[0]['w']", "params.head.w"]
    record = index.records("predict")[0]
    tree = record.signature.tree
    about = about_of(package, "predict")
    assert argument_names(about, ("params", "x"), tree) == [*params, "x"]
    assert result_names(about, record.calling.out_tree, tree) == ["result['scores']"]
    kept = index.records("kept")[0]
    results = result_names(about_of(package, "kept"), kept.calling.out_tree, kept.signature.tree)
    assert results == ["result[0].layers[0]['w']", "result[0].head.w", "result[1].w", "result[1].b"]


def test_what_nnx_jit_writes_is_no_result(tmp_path: Path) -> None:
    model = """
from flax import nnx
class Net(nnx.Module):
    def __init__(self, rngs):
        self.scale = nnx.Param(rngs.params.normal((3,)))
def net():
    return Net(nnx.Rngs(0))
@nnx.jit
def learn(net, x):
    net.scale.value = net.scale.value + x
    return {"y": x}
"""
    manifest = """
version: 1
package: proj
targets: [cpu]
functions:
  learn: {call: "proj.model:learn", args: [net: {like: "proj.model:net"}, x: "f32[3]"]}
"""
    built = build(write_project(tmp_path, manifest, model=model))
    index = open_index(DirectorySource(Path(built.folder)))
    function, (record,) = index.function("learn"), index.records("learn")
    assert function is not None
    about, tree = About.of(function.about), record.signature.tree
    assert argument_names(about, function.dynamic, tree) == ["net.scale.value", "x"]
    names = result_names(about, record.calling.out_tree, tree, function.wrap)
    assert names == ["result['y']", "updates[0]"]


def test_records_have_their_dims(package: Any) -> None:
    index = open_index(DirectorySource(Path(package.folder)))
    sizes = [record.provenance["dims"] for record in index.records("predict")]
    assert sorted(sizes, key=str) == [{"batch": 1}, {"batch": 2}]
    assert "dims" not in index.records("kept")[0].provenance
