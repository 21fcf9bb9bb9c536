"""What the index says of a function for people: it round-trips, and it names leaves as jax does."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any, NamedTuple

import jax
import pytest

from aotbuild.format.about import (
    RESULT,
    UNKNOWN,
    About,
    Parameter,
    argument_names,
    find_labels,
    join_abouts,
    result_names,
)
from aotbuild.format.outputs import describe_output
from aotbuild.format.tree import describe

SAID = About(
    "Add.",
    (Parameter("x", "positional_only"), Parameter("k", "keyword_only", UNKNOWN)),
    {"m.Point": (".x", ".y")},
    {(0, 1): ("", "['a']")},
)


class Point(NamedTuple):
    x: Any
    y: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Params:
    layers: Any
    head: Any


@jax.tree_util.register_pytree_node_class
class Unlabeled:
    def tree_flatten(self) -> Any:
        return (1.0, 2.0), None

    @classmethod
    def tree_unflatten(cls, _: Any, __: Any) -> Unlabeled:
        return cls()


TREES: list[Any] = [
    1.0,
    {"w": [1.0, (2.0,)], "b": None},
    {3: 1.0, 5: 2.0},
    Point(1.0, {"a": 2.0}),
    [Point(1.0, None), Point(None, 2.0), Point(1.0, 2.0)],
    Params([Point(1.0, 2.0)], Params((), 3.0)),
    collections.OrderedDict(b=1.0, a=[2.0]),
    [collections.OrderedDict(b=1.0), collections.OrderedDict(a=1.0, c=2.0)],
    Unlabeled(),
]


def steps_of(tree: Any) -> list[tuple[str, ...]]:
    return [tuple(map(str, path)) for path, _ in jax.tree_util.tree_flatten_with_path(tree)[0]]


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: type(tree).__name__)
def test_leaves_are_named_as_jax_names_them(tree: Any) -> None:
    call = ((tree, 1.0), {"scale": tree})
    described = describe(jax.tree.structure(call))
    about = find_labels(described, steps_of(call))
    names = ["".join(steps) for steps in steps_of(tree)]
    expected = [f"p{name}" for name in names] + ["x"] + [f"scale{name}" for name in names]
    assert argument_names(about, ["p", "x"], described) == expected
    assert About.from_json(about.to_json()) == about


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: type(tree).__name__)
def test_leaves_of_a_result_that_refers_to_the_arguments(tree: Any) -> None:
    call, result = ((tree,), {}), {"new": tree, "loss": 1.0}
    inputs, structure = jax.tree.structure(call), jax.tree.structure(result)
    described, out_tree = describe(inputs), describe_output(structure, inputs)
    about = join_abouts(
        [
            find_labels(described, steps_of(call)),
            find_labels(describe(structure), steps_of(result), (RESULT,)),
        ]
    )
    assert result_names(about, out_tree, described) == [
        "".join(("result", *steps)) for steps in steps_of(result)
    ]


def test_without_labels_a_node_has_indices() -> None:
    described = describe(jax.tree.structure(((Point(1.0, 2.0),), {})))
    names = ["p[<flat index 0>]", "p[<flat index 1>]"]
    assert argument_names(About(), ["p"], described) == names


def test_it_round_trips() -> None:
    assert About.from_json(SAID.to_json()) == SAID
    assert About().to_json() == {}
    assert About.from_json({}) == About()


def test_signatures_know_more_together() -> None:
    one, other = About(types={"P": (".x", "")}), About("Doc.", types={"P": ("", ".y")})
    assert join_abouts([one, other]) == About("Doc.", types={"P": (".x", ".y")})


def test_labels_that_contradict_each_other_are_dropped() -> None:
    joined = join_abouts([About(types={"P": (".x",)}), About(types={"P": (".y",)})])
    assert joined.types == {"P": ("",)}


@pytest.mark.parametrize(
    "data",
    [
        {"doc": 3},
        {"labels": [[]]},
        {"labels": [[3, "a"]]},
        {"labels": [["P", 3]]},
        {"labels": [[["a"], "b"]]},
        {"labels": 3},
        {"parameters": [["x"]]},
        {"parameters": [["x", "kind"]]},
        {"parameters": [["x", "keyword_only", 1, 2]]},
        {"parameters": [3]},
    ],
    ids=str,
)
def test_what_is_malformed_is_refused_and_never_needed(data: Any) -> None:
    with pytest.raises(ValueError, match="not what a function says of itself"):
        About.from_json(data)
    assert About.of(data) == About()
