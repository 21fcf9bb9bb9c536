"""Trees of types that take arrays only: what stands for them while there are only avals."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from aotbuild.worker.deferred import Deferred, hold, of_arrays, result_tree, structure_of


@jax.tree_util.register_pytree_with_keys_class
class Arrays:
    """Converts its children."""

    def __init__(self, x: Any, y: Any) -> None:
        self.x, self.y = jnp.asarray(x), jnp.asarray(y)

    def tree_flatten_with_keys(self) -> tuple[Any, None]:
        key = jax.tree_util.GetAttrKey
        return [(key("x"), self.x), (key("y"), self.y)], None

    @classmethod
    def tree_unflatten(cls, _: None, children: Any) -> Arrays:
        return cls(*children)


TREE = {"a": [Arrays(1.0, jnp.ones(2)), (jnp.zeros(3), None)], "b": jnp.ones(4)}


def avals(tree: Any) -> Any:
    pairs, treedef = jax.tree_util.tree_flatten_with_path(tree)
    structs = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for _, leaf in pairs]
    return hold(treedef, structs, [jax.tree_util.keystr(path) for path, _ in pairs])


def paths(tree: Any) -> list[str]:
    return [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_flatten_with_path(tree)[0]]


def test_the_type_itself_takes_no_avals() -> None:
    with pytest.raises(TypeError):
        jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), TREE)


def test_only_its_own_part_is_deferred() -> None:
    held = avals(TREE)
    assert isinstance(held["a"][0], Deferred)
    assert isinstance(held["a"][1], tuple)
    assert held["a"][1][1] is None


def test_paths_leaves_and_structure_are_those_of_the_tree() -> None:
    held = avals(TREE)
    assert paths(held) == paths(TREE)
    assert [x.shape for x in jax.tree.leaves(held)] == [x.shape for x in jax.tree.leaves(TREE)]
    assert structure_of(held) == jax.tree.structure(TREE)


def test_a_function_gets_the_tree() -> None:
    def double(tree: Any, name: str) -> Any:
        assert isinstance(tree["a"][0], Arrays)
        return Arrays(tree["a"][0].y * 2, len(name)), tree["b"]

    held = avals(TREE)
    function = of_arrays(double, (held,), {"name": "n"})
    traced = jax.jit(function, static_argnames="name").trace(held, name="abc")
    result = result_tree(traced)
    assert isinstance(result[0], Deferred)
    assert [x.shape for x in result[0].leaves] == [(2,), ()]
    assert structure_of(result) == jax.tree.structure((Arrays(0, 0), 0))


def test_other_trees_are_left_alone() -> None:
    def same(tree: Any) -> Any:
        return tree

    plain = avals({"b": [jnp.ones(2)], "c": None})
    assert plain == {"b": [jax.ShapeDtypeStruct((2,), jnp.float32)], "c": None}
    assert of_arrays(same, (plain,), {}) is same
