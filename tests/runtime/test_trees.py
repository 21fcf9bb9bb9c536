"""Trees: descriptions become the very treedefs they were made from, or a reason why not."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from typing import Any

import jax
import pytest

from aotbuild.errors import AotbuildError
from aotbuild.format.outputs import describe_output
from aotbuild.format.tree import describe
from aotbuild.runtime import binding
from aotbuild.runtime.jax.backend import JaxTrees

Point = namedtuple("Point", "x y")


def restore(tree: Any, inputs: Any) -> Any:
    return binding.restore(tree, inputs, JaxTrees(), "signature.tree")


@jax.tree_util.register_dataclass
@dataclass
class State:
    x: Any
    size: int


class Plain:
    pass


# Namedtuples that are registered in another way, as the optimizer states of jax's examples.
Tagged = namedtuple("Tagged", "x tag")
jax.tree_util.register_pytree_node(
    Tagged, lambda value: ((value.x,), value.tag), lambda tag, children: Tagged(*children, tag)
)
First = namedtuple("First", "x rest")
jax.tree_util.register_pytree_node(
    First, lambda value: ((value.x,), None), lambda _, children: First(*children, "made")
)


INPUTS = jax.tree_util.tree_structure((({"a": 1, "b": [1, 2]},), {"k": 1}))


@pytest.mark.parametrize(
    "value",
    [
        1,
        None,
        (),
        [1, (2, None)],
        {"b": 1, "a": {2: 1, 1: 2}},
        Point(1, [Point(2, 3)]),
        OrderedDict(z=1, a=2),
        Tagged([1, Point(2, None)], "kind"),
        First({"a": Tagged(1, ("t", 2))}, None),
    ],
)
def test_round_trips(value: Any) -> None:
    treedef = jax.tree_util.tree_structure(value)
    assert restore(describe(treedef), INPUTS) == treedef


def test_a_subtree_of_the_inputs() -> None:
    tree = ["tuple", ["input", [0, 0]], ["input", [0, 0, 1]]]
    expected = jax.tree_util.tree_structure(({"a": 1, "b": [1, 2]}, [1, 2]))
    assert restore(tree, INPUTS) == expected


def test_a_registered_type_as_input_and_output() -> None:
    structure = jax.tree_util.tree_structure(State(1, 2))
    inputs = jax.tree_util.tree_structure(((State(1, 2),), {}))
    assert restore(describe_output(structure, inputs), inputs) == structure


def test_the_data_of_a_registered_namedtuple_counts() -> None:
    one, other = (describe(jax.tree_util.tree_structure(Tagged(1, tag))) for tag in ("a", "b"))
    assert one == ["node", f"{__name__}:Tagged", "a", "*"]
    assert one != other


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        (["namedtuple", "no_such_module:Point", "*"], "No module named 'no_such_module'"),
        (["namedtuple", "collections:Absent", "*"], "has no attribute 'Absent'"),
        (["namedtuple", f"{__name__}:Plain", "*"], "which is not a namedtuple"),
        # jaxlib made these without a check, and ended the process when it used them.
        (["node", "types:NoneType", None, "*"], "NoneType, a container"),
        (["node", "builtins:dict", {"tuple": ["a"]}, "*"], "dict, a container"),
        (["node", "builtins:list", None, "*"], "list, a container"),
        (["node", "builtins:tuple", None, "*"], "tuple, a container"),
        (["node", f"{__name__}:Plain", None, "*"], "Could not find type"),
    ],
)
def test_types_that_cannot_be_restored(tree: Any, words: str) -> None:
    with pytest.raises(AotbuildError, match=words):
        restore(tree, INPUTS)
