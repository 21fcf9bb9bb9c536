"""`signatures:` from the manifest to calls: one function, each call with its own executable."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cli import run
from support.projects import failed_units, write_project

import aotbuild
from aotbuild.errors import SignatureMismatch

pytestmark = [pytest.mark.process, pytest.mark.any_jax]

MODULE = """
import threading
import jax
import jax.numpy as jnp

def decode(params, tokens, cache=None, *, scale=None, depth=1, mode="sum"):
    found = tokens * params["w"] ** depth
    found = found if cache is None else found + cache["k"]
    found = found if scale is None else found * scale
    return found.sum() if mode == "sum" else found

class Box:
    def __init__(self, array, sign): self.array, self.sign = array, sign
jax.tree_util.register_pytree_node(Box, lambda b: ((b.array,), b.sign), lambda s, c: Box(*c, s))
PLUS, MINUS = Box(jnp.zeros(2), threading.local()), Box(jnp.zeros(2), threading.local())
def signed(box): return box.array * (1 if box.sign is PLUS.sign else -1)
def required(x, n): return x * n
"""
MANIFEST = """
version: 1
package: proj
targets: [cpu]
functions:
  decode:
    call: "proj.m:decode"
    signatures:
      - args: [{params: {w: "f32[]"}}, {tokens: "f32[n]"}]
        dims: {n: [2, 3]}
      - args: [{params: {w: "f32[]"}}, {tokens: "f32[2]"}, {cache: {k: "f32[2]"}}]
        kwargs: {scale: "f32[]"}
        static: {depth: [1, 2], mode: [all]}
"""


def test_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write_project(tmp_path / "here", MANIFEST, m=MODULE)
    monkeypatch.chdir(root)
    run("build", "--out", tmp_path / "_aot")
    library: Any = aotbuild.load(tmp_path / "_aot")
    params, two = {"w": np.float32(3)}, np.asarray([1, 2], "float32")
    scale = np.float32(2)
    np.testing.assert_array_equal(library.decode(params, two), 9.0)
    np.testing.assert_array_equal(library.decode(params, two, depth=1, mode="sum"), 9.0)
    np.testing.assert_array_equal(library.decode(params, np.ones(3, "float32")), 9.0)
    for depth, factor in ((1, 3), (2, 9)):
        found = library.decode(params, two, {"k": two}, scale=scale, depth=depth, mode="all")
        np.testing.assert_array_equal(found, (two * factor + two) * 2)
    for kwargs in ({"mode": "all"}, {"depth": 2}, {"cache": {"k": two}}):
        with pytest.raises(SignatureMismatch):
            library.decode(params, two, **kwargs)


REFUSED = """
version: 1
package: proj
targets: [cpu]
functions:
  required:
    call: "proj.m:required"
    signatures: [{args: [x: "f32[]"], static: {n: [2]}}, {args: [x: "f32[2]"]}]
  signed:
    call: "proj.m:signed"
    signatures: [{args: [box: {like: "proj.m:PLUS"}]}, {args: [box: {like: "proj.m:MINUS"}]}]
  same:
    call: "proj.m:decode"
    signatures:
      - args: [{params: {w: "f32[]"}}, {tokens: "f32[2]"}]
      - args: [{params: {w: "f32[]"}}, {tokens: "f32[2]"}]
        static: {depth: [1]}
"""


def test_refused(tmp_path: Path) -> None:
    found = failed_units(write_project(tmp_path, REFUSED, m=MODULE))
    assert "has no default for it" in found["required"]
    assert "static data is compared with another tree" in found["signed"]
    assert "has the same signature as" in found["same"]
