"""Jitted functions of a source: found without importing it."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from aotbuild.record.source import FoundFunction, Module

HEAD = """\
raise SystemExit("imported")
import functools, jax
import equinox as eqx
import jax as j
from functools import partial
from flax import nnx
from jax import jit as fast
"""


@pytest.fixture
def module(tmp_path: Path):
    def read(source: str) -> Module:
        path = tmp_path / "m.py"
        path.write_text(HEAD + dedent(source))
        return Module("m", path)

    return read


def one(module: Module) -> FoundFunction:
    (function,) = module.find()
    return function


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("@jax.jit\ndef f(x): ...", "jax.jit"),
        ("@j.jit\ndef f(x): ...", "jax.jit"),
        ("@fast\ndef f(x): ...", "jax.jit"),
        ("@jax.jit()\ndef f(x): ...", "jax.jit"),
        ("@partial(jax.jit, keep_unused=False)\ndef f(x): ...", "jax.jit"),
        ("mine = partial(jax.jit)\n@mine\ndef f(x): ...", "jax.jit"),
        ("mine = jax.jit\n@mine\ndef f(x): ...", "jax.jit"),
        ("def g(x): ...\nf = jax.jit(g)", "jax.jit"),
        ("def g(x): ...\nf: object = partial(jax.jit)(g)", "jax.jit"),
        ("f = jax.jit(lambda x: x)", "jax.jit"),
        ("if True:\n    @jax.jit\n    def f(x): ...", "jax.jit"),
        ("try:\n    @jax.jit\n    def f(x): ...\nexcept E: ...", "jax.jit"),
        ("@nnx.jit(donate_argnums=0)\ndef f(x): ...", "nnx.jit"),
        ("@eqx.filter_jit\ndef f(x): ...", "eqx.filter_jit"),
    ],
)
def test_a_jit(module, code: str, kind: str) -> None:
    function = one(module(code))
    assert (function.call, function.jit, function.args) == ("m:f", kind, ("x",))


@pytest.mark.parametrize(
    "code",
    [
        "def g():\n    @jax.jit\n    def h(x): ...",
        "def g():\n    return jax.jit(lambda x: x)",
        "class C:\n    def g(self):\n        self.f = jax.jit(self.h)",
        "if __name__ == '__main__':\n    f = jax.jit(g)",
    ],
)
def test_a_jit_that_has_no_name(module, code: str) -> None:
    assert module(code).find() == []


def test_a_method(module) -> None:
    function = one(module("class Net:\n    @jax.jit\n    def step(self, x): ..."))
    assert function.call == "m:Net.step"
    assert function.args == ("self", "x")


def test_what_the_parameters_say(module) -> None:
    function = one(
        module("""
        @partial(jax.jit, static_argnums=2, static_argnames=("act", "kind"), donate_argnums=(0,))
        def f(w, x, act="tanh", mask=None, *, kind, y): ...
        """)
    )
    assert (function.args, function.kwargs) == (("w", "x"), ("y",))
    assert (function.static, function.donate) == (("act", "kind"), ("w",))
    assert function.notes == ("left at their defaults: mask",)


def test_options_that_a_person_writes(module) -> None:
    function = one(module("@partial(jax.jit, in_shardings=s)\ndef f(x): ..."))
    assert function.notes == ("its jit has in_shardings=; write it here",)


def test_a_function_without_a_jit_can_be_named(module) -> None:
    source = module("def f(x): ...")
    assert source.find() == []
    found = source.plain("f")
    assert found is not None
    assert (found.call, found.jit) == ("m:f", "")
    assert source.plain("g") is None
