"""What a watched argument is, and why a manifest cannot have some."""

from __future__ import annotations

import dataclasses
import sys
import threading
import types
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aotbuild.format.aval import Aval
from aotbuild.format.constructions import MADE, without_constructions
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


class Pair(NamedTuple):
    one: Any
    other: Any


class Opaque:
    def __reduce__(self) -> Any:
        raise TypeError("not this one")


def scaled(rate: float) -> Any:
    return lambda x: rate * x


TENTH = scaled(0.1)
PAIR = Pair(scaled(2.0), scaled(3.0))


class Rates:
    slow = scaled(0.01)


def test_avals_are_those_of_a_call() -> None:
    value = {"x": jnp.ones((2, 3), jnp.bfloat16), "k": jax.random.key(0), "n": 1, "f": np.ones(2)}
    tree, leaves, problem = describe_argument(value)
    assert tree == describe(jax.tree.structure(value))
    expected = ("f32[2]", "key<fry>[]", "~i32[]", "bf16[2,3]")
    assert leaves == tuple(map(Aval.parse, expected))
    assert problem == ""


@pytest.mark.parametrize(
    ("value", "name"),
    [(TENTH, "TENTH"), (PAIR.other, "PAIR.other"), (Rates.slow, "Rates.slow")],
)
def test_what_a_module_has_is_named(value: Any, name: str) -> None:
    tree, _, problem = describe_argument(State(jnp.ones(2), value))
    assert tree is not None
    assert tree[2]["tuple"][0][MADE][2] == {"name": f"{__name__}:{name}"}
    assert problem == ""
    assert without_constructions(tree) == describe(jax.tree.structure(State(1, value)))


def test_what_no_module_has_is_taken_apart() -> None:
    tree, _, problem = describe_argument([State(jnp.ones(2), scaled(0.5), scaled(7.0))])
    assert tree is not None
    found = [item[MADE][2]["function"][-1] for item in tree[1][2]["tuple"]]
    assert found == [[["rate", 0.5]], [["rate", 7.0]]]
    assert problem == ""


def test_a_problem_says_where_what_and_what_to_do() -> None:
    _, _, problem = describe_argument({"a": [State(1, Opaque())], "b": 2})
    assert f"['a'][0]: a {__name__}.State: .step: a {__name__}.Opaque keeps its state" in problem
    assert problem.endswith(LIKE)
    held = scaled(threading.Lock())
    _, leaves, problem = describe_argument({"b": [State(1, 2, held)]})
    assert problem.startswith(f"['b'][0]: a {__name__}.State: .rate: nothing says")
    assert leaves == (Aval((), "int32", weak_type=True),)
    assert problem.endswith(LIKE)


def test_a_problem_of_the_first_field_or_inside_of_a_treedef() -> None:
    held = scaled(threading.Lock())
    _, _, problem = describe_argument([1, State(1, held, 2)])
    assert problem.startswith(f"[1]: a {__name__}.State: .step: nothing says")
    inner = jax.tree.structure([State(1, held, 2)])
    _, _, problem = describe_argument([1, State(1, 2, (inner, 3))])
    assert problem.startswith(f"[1]: a {__name__}.State: .rate: nothing says")


def test_what_is_in_the_program_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pair, "__module__", "__main__")
    monkeypatch.setattr(sys.modules["__main__"], "Pair", Pair, raising=False)
    tree, _, problem = describe_argument([Pair(1, 2)])
    assert tree == ["list", ["namedtuple", "__main__:Pair", "*", "*"]]
    assert problem.startswith("[0]: a __main__.Pair: __main__:Pair is in the program itself; move")
    _, _, problem = describe_argument(State(1, Pair))
    assert "__main__:Pair is in the program itself" in problem


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
