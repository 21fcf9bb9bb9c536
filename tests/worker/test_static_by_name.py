"""Functions whose own jit has static arguments by name alone: it gets them by their names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from support.cli import run
from support.projects import write_project

import aotbuild

pytestmark = [pytest.mark.process, pytest.mark.any_jax]

MODULE = """
import functools
import jax
import jax.numpy as jnp
@functools.partial(jax.jit, static_argnums=(1,), static_argnames=("shape",))
def both(x, n, shape=(2, 3), shift=0.0): return jnp.full(shape, x * n) + shift
@functools.partial(jax.jit, static_argnames=("twice",), static_argnums=())
def empty(x, twice): return x * (2 if twice else 3)
class Net:
    @functools.partial(jax.jit, static_argnums=(0, 2), static_argnames=("shape",))
    def call(self, x, n, shape=(2, 3)): return jnp.full(shape, x * n)
net = Net()
"""
MANIFEST = """
version: 1
package: proj
targets: [cpu]
functions:
  both:
    call: "proj.m:both"
    args: [x: "f32[]"]
    kwargs: {shift: "f32[]"}
    static: {n: [2], shape: [[1, 2]]}
  empty: {call: "proj.m:empty", args: [x: "f32[]"], static: {twice: [true, false]}}
  method: {call: "proj.m:net.call", args: [x: "f32[]"], static: {n: [2], shape: [[1, 2]]}}
"""


def test_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write_project(tmp_path / "here", MANIFEST, m=MODULE)
    monkeypatch.chdir(root)
    run("build", "--out", tmp_path / "_aot")
    library: Any = aotbuild.load(tmp_path / "_aot")
    x, shift = np.float32(1.5), np.float32(1)
    found = [
        library.both(x, 2, shape=(1, 2), shift=shift),
        library.method(x, 2, shape=(1, 2)),
        library.empty(x, twice=True),
        library.empty(x, twice=False),
    ]
    expected = [np.full((1, 2), 4.0), np.full((1, 2), 3.0), 3.0, 4.5]
    for one, other in zip(jax.device_get(found), expected, strict=True):
        np.testing.assert_array_equal(one, other)
