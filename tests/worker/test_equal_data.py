"""Data that jax takes for equal, as 0.0 and -0.0: each job gets the program of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.cli import run
from support.projects import write_project

import aotbuild

pytestmark = pytest.mark.process

CODE = """
import dataclasses, functools
import jax
import jax.numpy as jnp

def signed(x, *, s):
    return jnp.copysign(x, s)

def halved(x, *, s):
    return x * (s[0] // 2 if isinstance(s[0], int) else s[0] / 2)

@functools.partial(jax.jit, static_argnames="scale")
def within(x, scale):
    return x * (scale // 2 if isinstance(scale, int) else scale / 2)

@functools.partial(jax.jit, static_argnames="pair")
def within_pair(x, pair):
    return halved(x, s=pair)

def one(x, *, scale):
    return within(x, scale) + 0

def other(x, *, scale):
    return within(x, scale) + 10

def first(x, *, s):
    return within_pair(x, s[0]) + s[1]

@functools.partial(jax.tree_util.register_dataclass, data_fields=["x"], meta_fields=["s"])
@dataclasses.dataclass
class Signed:
    x: jax.Array
    s: float

def positive(): return Signed(jnp.ones(2), 0.0)
def negative(): return Signed(jnp.ones(2), -0.0)
def of_tree(p): return jnp.copysign(p.x, p.s)

@jax.jit
def inner(p): return jnp.copysign(p.x, p.s)
def once(p): return inner(p)
# What functions pass to one helper without any argument that says so.
def with_int(x): return within_pair(x, (1, 2))
def with_float(x): return within_pair(x, (1.0, 2))
def twice(p, x): return inner(p) + x
"""
MANIFEST = """\
version: 1
package: proj
functions:
  signed: {call: "proj.code:signed", args: [x: "f32[2]"], static: {s: [0.0, -0.0, 0]}}
  halved: {call: "proj.code:halved", args: [x: "f32[2]"], static: {s: [[1, 2], [1.0, 2]]}}
  one: {call: "proj.code:one", args: [x: "f32[2]"], static: {scale: [1]}}
  other: {call: "proj.code:other", args: [x: "f32[2]"], static: {scale: [1.0]}}
  first: {call: "proj.code:first", args: [x: "f32[2]"], static: {s: [[[1, 2], 5], [[1.0, 2], 6]]}}
  once: {call: "proj.code:once", args: [p: {like: "proj.code:positive"}]}
  twice: {call: "proj.code:twice", args: [p: {like: "proj.code:negative"}, x: "f32[2]"]}
  with_int: {call: "proj.code:with_int", args: [x: "f32[2]"]}
  with_float: {call: "proj.code:with_float", args: [x: "f32[2]"]}
  plus: {call: "proj.code:of_tree", args: [p: {like: "proj.code:positive"}]}
  minus: {call: "proj.code:of_tree", args: [p: {like: "proj.code:negative"}]}
"""


def test_they_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """jax's caches took the first of two for both, and the wheel had one program twice."""
    monkeypatch.setenv("AOTBUILD_JOBS", "1")
    monkeypatch.setenv("AOTBUILD_STORE", "off")
    root = write_project(tmp_path / "here", MANIFEST, code=CODE)
    monkeypatch.chdir(root)
    monkeypatch.syspath_prepend(str(root))
    run("build", "--out", tmp_path / "_aot")
    library, x = aotbuild.load(tmp_path / "_aot"), np.array([1, 1], np.float32)

    def of(name: str, **static: object) -> float:
        return float(getattr(library, name)(x, **static)[0])

    assert [of("signed", s=s) for s in (0.0, -0.0, 0)] == [1, -1, 1]
    assert [of("halved", s=s) for s in ((1, 2), (1.0, 2))] == [0, 0.5]
    assert (of("one", scale=1), of("other", scale=1.0)) == (0, 10.5)
    assert [of("first", s=s) for s in (((1, 2), 5), ((1.0, 2), 6))] == [5, 6.5]
    assert (of("with_int"), of("with_float")) == (0, 0.5)
    from proj import code

    assert np.asarray(library.once(code.positive())).tolist() == [1, 1]
    assert np.asarray(library.twice(code.negative(), x)).tolist() == [0, 0]

    assert np.asarray(library.plus(code.positive())).tolist() == [1, 1]
    assert np.asarray(library.minus(code.negative())).tolist() == [-1, -1]
