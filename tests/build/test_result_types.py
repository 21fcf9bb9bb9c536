"""Notes on types of results that a process without jax cannot make, under `runtime: jaxlib`."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.projects import build, write_project

pytestmark = pytest.mark.process

MODEL = """
import collections
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from proj.light import Light

print("imported")
Here = collections.namedtuple("Here", "a b")

@jax.tree_util.register_dataclass
@__import__("dataclasses").dataclass
class Node:
    a: Any

def here(x):
    return Here(x, [Light(x)])
def light(x):
    return Light(x), {"a": x}
def jax_own(x):
    return jnp.linalg.eigh(x)
def node(x):
    return Node(x)
def same(x):
    return x
"""
LIGHT = "from typing import Any, NamedTuple\nclass Light(NamedTuple):\n    a: Any\n"
MANIFEST = """
version: 1
package: proj
runtime: RUNTIME
defaults: {verify: {golden: never}}
functions:
  here: {call: "proj.model:here", args: [x: "f32[2]"]}
  twice: {call: "proj.model:here", args: [x: "f32[2]"]}
  light: {call: "proj.model:light", args: [x: "f32[2]"]}
  jax_own: {call: "proj.model:jax_own", args: [x: "f32[2,2]"]}
  node: {call: "proj.model:node", args: [x: "f32[2]"]}
"""


def notes(root: Path, runtime: str) -> list[str]:
    project = write_project(root, MANIFEST.replace("RUNTIME", runtime), model=MODEL, light=LIGHT)
    return [note for note in build(project).notes if "result has" in note]


def test_types_that_need_jax_are_noted(tmp_path: Path) -> None:
    assert sorted(notes(tmp_path, "jaxlib")) == [
        (
            "here, twice: the result has a proj.model:Here, and importing proj.model imports jax: "
            "without jax a call raises, and with it the first call takes as long as importing "
            "jax; define the type in a module that imports no jax"
        ),
        (
            "node: the result has a proj.model:Node, a pytree that only jax knows: with "
            'arrays="numpy" a call raises; return a dict or a namedtuple'
        ),
    ]


def test_a_wheel_that_requires_jax_has_no_such_notes(tmp_path: Path) -> None:
    assert notes(tmp_path, "jax") == []
