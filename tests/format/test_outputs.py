"""Output trees with static data: rebuilt from data, the inputs, or a tree that has a name."""

from __future__ import annotations

import enum
import functools
import json
from collections import namedtuple
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import ml_dtypes
import numpy as np
import pytest

from aotbuild.errors import AotbuildError
from aotbuild.format.outputs import describe_output
from aotbuild.format.tree import TreeRefused
from aotbuild.runtime.binding import restore
from aotbuild.runtime.jax.backend import JaxTrees

structure = jax.tree.structure


@functools.partial(jax.tree_util.register_dataclass, data_fields=["arrays"], meta_fields=["extra"])
@dataclass
class State:
    arrays: Any
    extra: Any


@functools.partial(jax.tree_util.register_dataclass, data_fields=["arrays"], meta_fields=["extra"])
@dataclass
class Reader(State, json.JSONDecoder):
    pass


def closure(rate: float) -> Any:
    return lambda x: x * rate


MADE = State([1.0, 2.0], closure(0.5))


def restored(tree: Any, inputs: Any = None) -> Any:
    return restore(tree, inputs, JaxTrees(), "signature.tree")


@pytest.mark.parametrize(
    "extra",
    [
        np.int64(3),
        np.zeros((2, 0), np.float16),
        (np.array([1, 2]), {"a": np.bool_(True)}),
        ml_dtypes.bfloat16(1.5),
        np.dtype("int8"),
        np.dtype(ml_dtypes.bfloat16),
        jax.tree.structure(State(1, (np.dtype("float32"), max))),
        jax.tree.structure({"a": [1, None]}),
        (1, jax.tree.structure(State(1, 2))),
    ],
    ids=repr,
)
def test_data_that_can_be_decoded(extra: Any) -> None:
    tree = describe_output(structure(State(1, extra)), structure(((), {})))
    found = restored(tree).node_data()[1][0]
    assert repr(found) == repr(extra)
    assert type(found) is type(extra)


class Mode(enum.Enum):
    FAST = 1


class Sentinel:
    pass


MISSING = Sentinel()


@pytest.mark.parametrize("extra", [max, jax.nn.relu, Mode.FAST, MISSING, (State, {"a": closure})])
def test_what_modules_have_that_are_imported_with_the_type(extra: Any) -> None:
    """No import is made for it; functions of other packages come from arguments."""
    tree = describe_output(structure(State(1, extra)), structure(((), {})))
    assert restored(tree).node_data()[1][0] == extra


class Names(Mapping[str, Any]):
    """A mapping around a dict, as flax has one in each module."""

    def __init__(self, names: dict[str, Any]) -> None:
        raise AssertionError

    def __getitem__(self, name: str) -> Any:
        return self._names[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Names) and self._names == other._names

    def __hash__(self) -> int:
        return hash(tuple(self._names))

    _names: dict[str, Any]


class Closing(Names):
    def __del__(self) -> None:
        raise AssertionError


def test_mappings_are_made_without_running_their_code() -> None:
    extra = object.__new__(Names)
    extra._names = {"a": True, "b": (1, None)}
    tree = describe_output(structure(State(1, extra)), structure(((), {})))
    found = restored(tree).node_data()[1][0]
    assert type(found) is Names
    assert dict(found) == {"a": True, "b": (1, None)}


def local(rate: float) -> Any:
    class Scaled(State):
        @classmethod
        def apply(cls, x: float) -> float:
            return x * rate

    jax.tree_util.register_dataclass(Scaled, ["arrays"], ["extra"])
    return Scaled


class Pair(NamedTuple):
    a: Any


def test_types_that_a_function_made_come_from_inputs() -> None:
    made = local(0.5)
    inputs = structure(((made(1, 2),), {}))
    tree = describe_output(structure([made((1, 2), 2)]), inputs)
    assert tree == ["list", ["like_input", [0, 0], ["tuple", "*", "*"]]]
    assert restored(tree, inputs) == structure([made((1, 2), 2)])
    pair = namedtuple("Pair", "a")
    assert describe_output(structure(pair(1)), structure(((pair(2),), {}))) == ["input", [0, 0]]


@pytest.mark.parametrize("result", [local(0.25)(1, 2), namedtuple("Pair", "b")(1)])
def test_types_that_a_function_made_need_one(result: Any) -> None:
    inputs = structure(((local(0.5)(1, 2), Pair(1)), {}))
    expected = "no name leads to this type, which a function made, and no argument"
    with pytest.raises(TreeRefused, match=expected):
        describe_output(structure(result), inputs)


def test_treedefs_in_static_data_are_looked_into() -> None:
    for inner in (MADE, [State(MADE, 1)]):
        with pytest.raises(
            TreeRefused, match=r"its static data holds \S+closure.<locals>.<lambda>,"
        ):
            describe_output(structure(State(1, structure(inner))), structure(((), {})))
    expected = r"its static data holds \S+local.<locals>.Scaled, and"
    with pytest.raises(TreeRefused, match=expected):
        describe_output(structure(State(1, structure(local(0.5)(1, 2)))), structure(((), {})))


class Normal(State):
    """As a distribution of numpyro: the order of its fields depends on PYTHONHASHSEED."""

    order = ("loc", "scale")

    @classmethod
    def gather_pytree_data_fields(cls) -> tuple[str, ...]:
        return cls.order

    @classmethod
    def gather_pytree_aux_fields(cls) -> tuple[str, ...]:
        return ("shape",)


jax.tree_util.register_dataclass(Normal, ["arrays"], ["extra"])


def test_nodes_in_a_random_order(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = describe_output(structure(Normal(1, (2, None))), structure(((), {})))
    assert restored(tree) == structure(Normal(1, (2, None)))
    with pytest.raises(TreeRefused, match=r"its static data holds \S+closure.<locals>.<lambda>,"):
        describe_output(structure(Normal(1, closure(2))), structure(((), {})))
    monkeypatch.setattr(Normal, "order", ("scale", "loc"))
    expected = "expected loc, scale, shape\n  found    scale, loc, shape\nSet PYTHONHASHSEED=0"
    with pytest.raises(AotbuildError, match=expected):
        restored(tree)


def test_functions_of_other_packages_are_no_data() -> None:
    expected = "its static data holds json.dumps, and no argument"
    with pytest.raises(TreeRefused, match=expected):
        describe_output(structure(State(1, json.dumps)), structure(((), {})))


def test_types_bring_the_packages_of_their_bases_and_of_nodes_around_them() -> None:
    """equinox has a constant in each module, also in those of other packages."""
    tree = describe_output(structure(Reader(1, json.dumps)), structure(((), {})))
    assert restored(tree).node_data()[1][0] is json.dumps
    tree = describe_output(structure(Reader([State(1, json.dumps)], 2)), structure(((), {})))
    assert restored(tree) == structure(Reader([State(1, json.dumps)], 2))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"name": "no_such_module:f"}, "no_such_module:f is not imported; import it before"),
        ({"name": "json:absent"}, "json:absent is not imported"),
        ({"enum": [f"{__name__}:Sentinel", "FAST"]}, "is no enum"),
        ({"enum": [f"{__name__}:Mode", "SLOW"]}, "KeyError"),
        ({"object": ["builtins:int", []]}, "a builtins:int is no constant of its module"),
        ({"object": [f"{__name__}:Sentinel", [["a", 1]]]}, "is no constant of its module"),
        ({"object": [f"{__name__}:Closing", [["_names", {"dict": []}]]]}, "is no constant of its"),
        ({"object": [f"{__name__}:Names", [["_names", 1]]]}, "is no constant of its module"),
        ({"object": [f"{__name__}:Names", [["a", 1], ["b", 2]]]}, "is no constant of its module"),
        ({"object": [f"{__name__}:Names", 1]}, "TypeError"),
        ({"name": 3}, "3 is not the module:qualname of anything"),
    ],
)
def test_names_that_lead_nowhere(data: Any, words: str) -> None:
    tree = ["node", f"{__name__}:State", {"tuple": [data]}, "*"]
    with pytest.raises(AotbuildError, match=words):
        restored(tree)


def test_keys_of_dicts() -> None:
    result = {np.int8(2): 1, np.int8(1): 2}
    tree = describe_output(structure(result), structure(((), {})))
    assert restored(tree) == structure(result)


class Kind(enum.StrEnum):
    IMAGE, TEXT = "image", "text"


@pytest.mark.parametrize("key", [Kind.IMAGE, ("a", Kind.IMAGE)])
def test_keys_that_the_inputs_have(key: Any) -> None:
    given, result = structure((({key: 1},), {})), {key: (1, 2)}
    tree = describe_output(structure(result), given)
    assert tree == ["like_input", [0, 0], ["tuple", "*", "*"]]
    assert restored(tree, given) == structure(result)


def test_arrays_are_writable_and_own_their_data() -> None:
    tree = describe_output(structure(State(1, np.arange(3))), structure(((), {})))
    restored(tree).node_data()[1][0][0] = 5
    assert restored(tree).node_data()[1][0][0] == 0


def test_an_inputs_data_with_other_children() -> None:
    inputs = structure(((7, State((1, 2), closure(0.5))), {}))
    result = structure({"out": State([1], closure(0.5))})
    tree = describe_output(result, inputs)
    assert tree == ["dict", ["out"], ["like_input", [0, 1], ["list", "*"]]]
    found = restored(tree, inputs).unflatten([3])["out"]
    assert found.arrays == [3]
    assert found.extra(2) == 1
