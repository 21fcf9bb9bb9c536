"""What a watched argument is, and why a manifest cannot have some."""

from __future__ import annotations

import dataclasses
import sys
import types
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aotbuild.format.aval import Aval
from aotbuild.format.tree import describe, register_markers
from aotbuild.format.wrap import FilterJit
from aotbuild.record.global_names import GlobalNames
from aotbuild.record.trees import describe_argument

LIKE = "; name a function that makes it with like:"


@jax.tree_util.register_pytree_with_keys_class
@dataclasses.dataclass
class State:
    params: Any
    step: Any = dataclasses.field(metadata={"pytree_node": False})
    rate: Any = dataclasses.field(default=1, metadata={"pytree_node": False})

    def tree_flatten_with_keys(self) -> Any:
        return ((jax.tree_util.GetAttrKey("params"), self.params),), (self.step, self.rate)

    @classmethod
    def tree_unflatten(cls, aux: Any, children: Any) -> State:
        return cls(*children, *aux)


class Opaque:
    def __reduce__(self) -> Any:
        raise TypeError("not this one")


def test_avals_are_those_of_a_call() -> None:
    value = {"x": jnp.ones((2, 3), jnp.bfloat16), "k": jax.random.key(0), "n": 1, "f": np.ones(2)}
    tree, leaves, problem = describe_argument(value)
    assert tree == describe(jax.tree.structure(value))
    expected = ("f32[2]", "key<fry>[]", "~i32[]", "bf16[2,3]")
    assert leaves == tuple(map(Aval.parse, expected))
    assert problem == ""


def test_a_problem_says_where_what_and_what_to_do() -> None:
    _, _, problem = describe_argument({"a": [State(1, Opaque())], "b": 2})
    assert f"['a'][0]: a {__name__}.State: .step: a {__name__}.Opaque keeps its state" in problem
    assert problem.endswith(LIKE)


def test_what_is_no_argument_of_jit() -> None:
    assert describe_argument({1: 1, "a": 2})[2].startswith("it is no pytree: ")
    assert describe_argument("text")[2].startswith("a leaf is a str")


def test_under_a_wrap_leaves_are_static() -> None:
    register_markers(jax.tree_util.register_pytree_node)
    wrap = FilterJit(jax.tree_util.tree_flatten, lambda x: isinstance(x, jax.Array))
    tree, leaves, problem = describe_argument([jnp.ones(2), jax.nn.relu, "mean"], wrap)
    relu = {"name": "jax._src.nn.functions:relu"}
    assert tree == ["list", "*", ["static", relu], ["static", "mean"]]
    assert leaves == (Aval((2,), "float32"),)
    assert problem == ""


class Proxy:
    """As werkzeug's: it asks for what it stands for, which is not there."""

    @property
    def __class__(self) -> Any:
        raise RuntimeError("outside of a request")


class Lazy(types.ModuleType):
    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(name)


def test_looking_for_names_runs_no_code(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("made_up")
    vars(module).update(proxy=Proxy(), text="x", weird=object())
    monkeypatch.setitem(sys.modules, "made_up", module)
    monkeypatch.setitem(sys.modules, "lazy", Lazy("lazy"))
    monkeypatch.setitem(sys.modules, "nothing", None)
    names = GlobalNames()
    assert names.name(vars(module)["weird"]) == "made_up:weird"
    assert names.name(vars(module)["proxy"]) == "made_up:proxy"
    assert names.name(object()) is None
    assert names.name(module) is None
