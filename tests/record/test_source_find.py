"""Jitted functions of a source: found without importing it, and told where no name leads to one."""

from __future__ import annotations

from dataclasses import astuple
from textwrap import dedent

import pytest

from aotbuild.record.source import ModuleSource
from aotbuild.record.source_find import find_functions
from aotbuild.record.source_functions import Found, SourceFunction

HEAD = """\
import functools, jax
import equinox as eqx
import jax as j
from functools import partial
from typing import Literal
from flax import nnx
from jax import jit as fast
from jax.experimental.pjit import pjit
from jax.sharding import NamedSharding, PartitionSpec as P
from jaxtyping import Array, Float
"""


def found(source: str, *names: str) -> Found:
    return find_functions(ModuleSource("m", "m.py", HEAD + dedent(source)), names)


def one(source: str, *names: str) -> SourceFunction:
    (function,) = found(source, *names).functions
    return function


def specs(function: SourceFunction) -> dict[str, str]:
    return {each.name: each.spec for each in (*(function.args or ()), *function.kwargs)}


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("@jax.jit\ndef f(x): ...", "jax.jit"),
        ("@j.jit\ndef f(x): ...", "jax.jit"),
        ("@fast\ndef f(x): ...", "jax.jit"),
        ("@pjit\ndef f(x): ...", "jax.jit"),
        ("@jax.jit()\ndef f(x): ...", "jax.jit"),
        ("@partial(jax.jit, keep_unused=False)\ndef f(x): ...", "jax.jit"),
        ("@functools.partial(fast)\ndef f(x): ...", "jax.jit"),
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
def test_a_jit(code: str, kind: str) -> None:
    function = one(code)
    assert (function.call, function.jit, specs(function)) == ("m:f", kind, {"x": "TODO"})


@pytest.mark.parametrize(
    ("code", "line", "what", "reason"),
    [
        ("def g():\n    @jax.jit\n    def h(x): ...", 13, "jax.jit of h", "is made inside g()"),
        ("def g():\n    return jax.jit(lambda x: x)", 12, "jax.jit of a lambda", "inside g()"),
        ("class C:\n    def g(self):\n        self.f = jax.jit(self.h)", 13, "of self.h", "C.g()"),
        ("run(jax.jit(lambda x: x))", 11, "jax.jit of a lambda", "no name of its own"),
        ("a.b = jax.jit(lambda x: x)", 11, "jax.jit of a lambda", "no name of its own"),
        ("@jax.pmap\ndef f(x): ...", 12, "f", "is under jax.pmap"),
        (
            "if __name__ == '__main__':\n    f = jax.jit(lambda x: x)",
            *(12, "jax.jit of a lambda", "only where the file is run"),
        ),
        ("class C:\n    @jax.jit(static_argnums=0)\n    def f(self): ...", 13, "C.f", "static"),
        ("class C:\n    @property\n    @jax.jit\n    def f(self): ...", 14, "C.f", "a property"),
    ],
)  # fmt: skip
def test_what_no_manifest_can_name(code: str, line: int, what: str, reason: str) -> None:
    (item,) = found(code).left_out
    assert (item.file, item.line) == ("m.py", line)
    assert what in item.what
    assert reason in item.reason
    assert item.remedy


def test_a_jit_of_a_function_that_has_a_name() -> None:
    (item,) = found("def g(x): ...\nprint(jax.jit(g)(1))").left_out
    assert item.remedy == "Name the function itself: aotbuild init m:g"


class TestMethods:
    def test_the_object_is_an_argument(self) -> None:
        function = one("""
            class Net:
                @jax.jit
                def step(self, x): ...
            def make():
                return Net()
        """)
        assert function.call == "m:Net.step"
        assert specs(function) == {"self": '{like: "m:make"}', "x": "TODO"}

    def test_a_static_method(self) -> None:
        function = one("""
            class Net:
                @staticmethod
                @jax.jit
                def step(x): ...
        """)
        assert (function.call, specs(function)) == ("m:Net.step", {"x": "TODO"})

    def test_a_class_method(self) -> None:
        function = one("""
            class Net:
                @classmethod
                @partial(jax.jit, static_argnums=0)
                def step(cls, x): ...
            net = Net()
        """)
        assert (function.call, specs(function)) == ("m:Net.step", {"x": "TODO"})

    def test_a_static_object_that_has_a_name(self) -> None:
        function = one("""
            class Net:
                @partial(jax.jit, static_argnums=(0, 2))
                def step(self, x, n: int = 3): ...
            net = Net()
        """)
        assert (function.call, specs(function)) == ("m:net.step", {"x": "TODO"})
        assert [astuple(each)[:2] for each in function.static] == [("n", (3,))]


class TestParameters:
    def test_by_name(self) -> None:
        function = one("@jax.jit\ndef f(x, /, y, *, k, **more): ...")
        assert [each.name for each in function.args or ()] == ["x", "y"]
        assert [each.name for each in function.kwargs] == ["k"]
        assert "it takes **more: add what calls pass under kwargs:" in function.notes

    def test_defaults_are_left_out(self) -> None:
        function = one("@jax.jit\ndef f(x, mask=None, scale=1.0): ...")
        assert specs(function) == {"x": "TODO"}
        assert function.notes == ("left at their defaults: mask=None, scale=1.0",)

    def test_comments_are_of_their_line(self) -> None:
        function = one("""
            @jax.jit
            def f(
                a,  # f32[3]
                b, c,  # f32[4]
                d: "Array",  # [n, 2]
            ): ...
        """)
        assert specs(function) == {"a": "f32[3]", "b": "TODO", "c": "TODO", "d": "TODO[n,2]"}

    @pytest.mark.parametrize(
        ("maker", "spec"),
        [
            ("def init() -> Params: ...", '{like: "m:init"}'),
            ("def init(n=3):\n    return Params(n)", '{like: "m:init"}'),
            ("def init(n) -> Params: ...", "TODO"),
            ("def init() -> Params: ...\ndef other() -> Params: ...", "TODO"),
            ("@jax.jit\ndef init() -> Params: ...", "TODO"),
        ],
    )
    def test_a_tree(self, maker: str, spec: str) -> None:
        functions = found(f"class Params: ...\n{maker}\n@jax.jit\ndef f(p: Params): ...").functions
        assert specs(functions[-1]) == {"p": spec}

    def test_a_partial_binds(self) -> None:
        function = one("def g(a, b, c, *, k): ...\nf = jax.jit(partial(g, 1, k=2))")
        assert specs(function) == {"b": "TODO", "c": "TODO"}

    def test_vmap_changes_shapes(self) -> None:
        code = 'def g(x: Float[Array, "n"]): ...\nf = jax.jit(jax.vmap(g))'
        assert specs(one(code)) == {"x": "TODO"}
        assert specs(one(code.replace("vmap", "grad"))) == {"x": "f32[n]"}

    def test_what_is_not_in_the_module(self) -> None:
        function = one("f = jax.jit(model.apply)")
        assert function.args is None
        assert function.notes == ("the parameters of model.apply are not in this module",)


class TestStatic:
    @pytest.mark.parametrize(
        ("parameter", "values"),
        [
            ("n: int", ()),
            ("n: bool", (False, True)),
            ("n: bool = True", (False, True)),
            ('n: Literal["a", "b"]', ("a", "b")),
            ('n="tanh"', ("tanh",)),
            ("n=(2, 3)", ((2, 3),)),
            ("n=None", (None,)),
        ],
    )
    @pytest.mark.parametrize("option", ["static_argnames='n'", "static_argnums=(1,)"])
    def test_values(self, parameter: str, values: tuple[object, ...], option: str) -> None:
        function = one(f"@partial(jax.jit, {option})\ndef f(x, {parameter}): ...")
        assert specs(function) == {"x": "TODO"}
        assert [(each.name, each.values) for each in function.static] == [("n", values)]

    def test_a_default_that_no_manifest_has(self) -> None:
        function = one("@partial(jax.jit, static_argnames='n')\ndef f(x, n=jax.nn.relu): ...")
        assert function.static == ()
        assert function.notes == ("left at their defaults: n=jax.nn.relu",)

    def test_names_in_a_constant(self) -> None:
        function = one("NAMES = ('n',)\n@partial(jax.jit, static_argnames=NAMES)\ndef f(x, n): ...")
        assert [each.name for each in function.static] == ["n"]

    def test_names_that_only_running_tells(self) -> None:
        function = one("@partial(jax.jit, static_argnames=names())\ndef f(x, n): ...")
        assert function.notes == ("its static_argnames are no literal: names()",)

    def test_numbers_under_filter_jit(self) -> None:
        function = one("@eqx.filter_jit\ndef f(x, n: int, train: bool): ...")
        assert specs(function) == {"x": "TODO"}
        assert [each.values for each in function.static] == [(), (False, True)]


class TestOptions:
    def test_donated(self) -> None:
        code = "@partial(jax.jit, donate_argnums=(2, 0), static_argnums=1)\ndef f(a, n, b): ..."
        assert one(code).options == {"donate": ["a", "b"]}

    def test_arguments_that_are_left_out(self) -> None:
        code = (
            "@partial(jax.jit, donate_argnums=1, in_shardings=(None, P('x')))\ndef f(a, b=1): ..."
        )
        assert one(code).options == {}

    def test_of_a_function_from_elsewhere(self) -> None:
        function = one(
            "f = jax.jit(m.g, static_argnames='n', static_argnums=1, donate_argnames='a')"
        )
        assert [(each.name, each.values) for each in function.static] == [("n", ())]
        assert function.options == {"donate": ["a"]}
        assert "its static_argnums are 1" in function.notes

    def test_flags(self) -> None:
        code = "@partial(jax.jit, keep_unused=True, compiler_options={'a': 1})\ndef f(x): ..."
        assert one(code).options == {"keep_unused": True, "compiler_options": {"a": 1}}

    def test_shardings(self) -> None:
        function = one("""
            mesh = jax.make_mesh((2, 4), ("data", "model"))
            def g(a, n, b): ...
            f = jax.jit(
                g,
                static_argnums=1,
                in_shardings=(P("data"), {"w": NamedSharding(mesh, P(None, "model"))}),
                out_shardings=P(("data", "model")),
            )
        """)
        assert function.options == {
            "mesh": {"data": 2, "model": 4},
            "in_shardings": {"a": ["data"], "b": {"w": [None, "model"]}},
            "out_shardings": [["data", "model"]],
        }

    def test_a_mesh_that_only_running_tells(self) -> None:
        function = one("@partial(jax.jit, in_shardings=P('x'))\ndef f(a): ...")
        assert function.options["mesh"] == {"x": "TODO"}

    def test_everything_replicated(self) -> None:
        function = one("f = jax.jit(lambda a: a, in_shardings=P(), out_shardings=P())")
        assert function.options == {"mesh": "TODO", "in_shardings": {"a": []}, "out_shardings": []}

    def test_shardings_that_only_running_tells(self) -> None:
        function = one("@partial(jax.jit, in_shardings=where())\ndef f(a): ...")
        assert function.options == {}
        assert "in_shardings" in function.notes[0]


class TestNames:
    """A manifest has ASCII names alone."""

    def test_of_a_function(self) -> None:
        result = found("@jax.jit\ndef größe(x): ...\n@jax.jit\ndef f(x): ...")
        assert [each.call for each in result.functions] == ["m:f"]
        (item,) = result.left_out
        assert item.what == "jax.jit m:größe"
        assert item.reason == "its name is not in ASCII, and no manifest can write it"

    @pytest.mark.parametrize("code", ["x, θ", "x, *, θ", "x, θ: bool = False"])
    def test_of_an_argument(self, code: str) -> None:
        result = found(f"@partial(jax.jit, static_argnames='θ')\ndef f({code}): ...")
        (item,) = result.left_out
        assert item.reason == "its argument θ is not in ASCII, and no manifest can write it"
        assert not result.functions

    def test_of_one_that_was_asked_for(self) -> None:
        (item,) = found("def f(θ): ...", "f").left_out
        assert (item.what, item.line) == ("the function m:f", len(HEAD.splitlines()) + 1)


class TestNamed:
    def test_a_function_without_a_jit(self) -> None:
        code = 'def f(x, act="tanh", train: bool = False, scale=1.0): ...\n@jax.jit\ndef g(x): ...'
        function = one(code, "f")
        assert (function.call, function.jit) == ("m:f", "")
        assert [(s.name, s.values) for s in function.static] == [
            ("act", ("tanh",)),
            ("train", (False, True)),
        ]

    def test_a_method(self) -> None:
        function = one("class C:\n    def f(self, x): ...", "C.f")
        assert specs(function) == {"self": "TODO", "x": "TODO"}

    def test_a_partial(self) -> None:
        code = "def g(x, config, n): ...\nsmall = partial(g, config=SMALL)"
        assert specs(one(code, "small")) == {"x": "TODO", "n": "TODO"}

    def test_a_jitted_one(self) -> None:
        assert one("@jax.jit\ndef f(x): ...\n@jax.jit\ndef g(x): ...", "g").jit == "jax.jit"

    def test_one_that_is_not_there(self) -> None:
        with pytest.raises(LookupError, match="gone"):
            found("def f(x): ...", "gone")
