"""How an error says what differs in the static data of an argument."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.packages import Built, build, write

import aotbuild
from aotbuild.errors import SignatureMismatch


@functools.partial(jax.tree_util.register_dataclass, data_fields=["w"], meta_fields=["fn", "sizes"])
@dataclass
class State:
    w: Any
    fn: Any = field(metadata={"static": True})
    sizes: Any = field(metadata={"static": True})


@jax.tree_util.register_pytree_node_class
class Normal:
    """As a distribution of numpyro: the order of its children depends on PYTHONHASHSEED."""

    order = ("loc", "scale")

    def __init__(self, loc: Any, scale: Any) -> None:
        self.loc, self.scale = loc, scale

    @classmethod
    def gather_pytree_data_fields(cls) -> tuple[str, ...]:
        return cls.order

    @classmethod
    def gather_pytree_aux_fields(cls) -> tuple[str, ...]:
        return ()

    def tree_flatten(self) -> Any:
        return tuple(getattr(self, name) for name in self.order), ()

    @classmethod
    def tree_unflatten(cls, _: Any, children: Any) -> Normal:
        return cls(**dict(zip(cls.order, children, strict=True)))


def scaled(rate: float) -> Callable[[Any], Any]:
    return lambda x: x * rate


def state(rate: float = 0.5, sizes: Any = (1, 2)) -> dict[str, Any]:
    return {"model": State(np.float32(1), scaled(rate), sizes)}


def apply(state: Any) -> Any:
    return state["model"].fn(state["model"].w)


@pytest.fixture(scope="module")
def built() -> Built:
    return build("apply", apply, {"state": state()})


def lines(folder: Path, built: Built, *args: Any) -> list[str]:
    with pytest.raises(SignatureMismatch) as caught:
        getattr(aotbuild.load(write(folder, [built])), built.function.name)(*args)
    return [line.strip() for line in caught.value.trace]


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        (state(rate=0.25), ".fn.rate: compiled with 0.5, called with 0.25"),
        (state(sizes=(1, 3)), ".sizes[1]: compiled with 2, called with 3"),
        (state(sizes=(1, 2.0)), ".sizes[1]: compiled with 2, called with 2.0"),
        (state(sizes=None), ".sizes: compiled with (1, 2), called with None"),
        (state(sizes=scaled(1)), ".sizes: compiled with (1, 2), called with"),
    ],
)
def test_fields_are_named(changed: Any, line: str, built: Built, tmp_path: Path) -> None:
    assert f"state['model']{line}" in "\n".join(lines(tmp_path, built, changed))


def test_a_function_in_the_place_of_a_closure(built: Built, tmp_path: Path) -> None:
    other = {"model": State(np.float32(1), jnp.tanh, (1, 2))}
    (line, *_) = [each for each in lines(tmp_path, built, other) if ".fn" in each]
    name = f"{__name__}.scaled.<locals>.<lambda>"
    assert line == f"state['model'].fn: compiled with {name}, called with jax.numpy.tanh"


def test_another_python_is_named(built: Built, tmp_path: Path) -> None:
    facts = tuple(replace(each, python="3.9") for each in built.function.facts)
    function = replace(built.function, facts=facts)
    found = lines(tmp_path, replace(built, function=function), state(rate=0.25))
    assert any("holds code, which was compiled with Python 3.9 and differs" in x for x in found)


def test_without_facts_the_field_is_named(built: Built, tmp_path: Path) -> None:
    """As of an index that lost them, or whose function has too many."""
    function = replace(built.function, facts=())
    found = lines(tmp_path, replace(built, function=function), state(rate=0.25))
    assert any(line.startswith("state['model'].fn: compiled with another") for line in found)


def test_children_in_another_order_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have equal shapes, so the result would be wrong."""
    one, two = np.float32(1), np.float32(2)
    built = build("spread", lambda n: n.loc - n.scale, {"n": Normal(one, two)})
    library = aotbuild.load(write(tmp_path / "right", [built]))
    assert library.spread(Normal(one, two)) == -1
    monkeypatch.setattr(Normal, "order", ("scale", "loc"))
    (line, *_) = [x for x in lines(tmp_path / "wrong", built, Normal(one, two)) if "order" in x]
    expected = "compiled in the order loc, scale; here it is scale, loc"
    assert line == f"n: {expected}: set PYTHONHASHSEED=0, as builds do"
