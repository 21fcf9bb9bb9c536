"""Constructions: what is made again has the same identity, or there is a reason why it is not."""

from __future__ import annotations

import functools
import json
import sys
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
import pytest
from support import static_model

from aotbuild.format.construct import DECODERS
from aotbuild.format.constructions import (
    MADE,
    Constructions,
    without_constructions,
)
from aotbuild.format.restore import numpy_dtype, numpy_value
from aotbuild.format.tree import describe
from aotbuild.format.values import NotEncodable, decode

OTHERS = {
    "numpy": lambda body, _: numpy_value(*body),
    "dtype": lambda body, _: numpy_dtype(body),
}
# They lead back to themselves, have state in C, or say themselves how they are pickled.
WITHOUT = {
    "cached",
    "default",
    "methods",
    "module",
    "objects",
    "ordered",
    "pattern",
    "pickled",
    "proxy",
    "recursive",
    "ring",
    "ring in use",
    "ring's method",
    "sentinel",
    "text",
    "local class",
}


def construction(value: Any, name: str | None = None) -> Any:
    return Constructions(describe, lambda _: name).of(value)


def made(value: Any) -> Any:
    found = json.loads(json.dumps(construction(value)))
    return decode(found, {**OTHERS, **DECODERS})


@jax.tree_util.register_pytree_node_class
class Holder:
    def __init__(self, data: Any) -> None:
        self.data = data

    def tree_flatten(self) -> Any:
        return (), self.data

    @classmethod
    def tree_unflatten(cls, data: Any, _: Any) -> Holder:
        return cls(data)


def identity(value: Any) -> Any:
    return describe(jax.tree.structure(Holder(value)))


VALUES = static_model.values()


@pytest.mark.parametrize("name", VALUES)
def test_what_is_made_is_the_same(name: str) -> None:
    if name in WITHOUT:
        with pytest.raises(NotEncodable):
            made(VALUES[name])
        return
    again = made(VALUES[name])
    assert identity(again) == identity(VALUES[name])
    assert type(again) is type(VALUES[name])


@dataclass(frozen=True)
class Settings:
    depth: int
    names: frozenset[str] = frozenset()
    sizes: Any = field(default=(1, 2))


@dataclass
class Counted:
    limit: int

    def __post_init__(self) -> None:
        self.calls = 0


class Plain:
    def __init__(self, size: int) -> None:
        self.size = size
        self._hash = hash(("plain", size))

    @functools.cached_property
    def doubled(self) -> int:
        return 2 * self.size


def closure(rate: float, *, also: Any = None) -> Any:
    def outer(x: float, power: int = 2, *, sign: int = 1) -> float:
        return sign * rate * x**power + (also or 0)

    return outer


def nested(rate: float) -> Any:
    inner = closure(rate)
    return lambda x: inner(x) + 1


def pair(x: int) -> Any:
    return lambda: x, lambda: -x


class TestWhatIsMade:
    def test_closures_are_called_as_before(self) -> None:
        assert made(closure(0.5))(3.0, sign=-1) == -4.5
        assert made(nested(2.0))(1.0) == 3.0
        assert made(functools.partial(closure(1.0), 2.0, power=3))() == 8.0

    def test_one_of_several_with_the_same_name(self) -> None:
        first, second = pair(3)
        assert first.__qualname__ == second.__qualname__
        assert (made(first)(), made(second)()) == (3, -3)

    def test_dataclasses_objects_and_arrays(self) -> None:
        assert made(Settings(3, frozenset("ab"))) == Settings(3, frozenset("ab"))
        assert made(Counted(2)).calls == 0
        plain = Plain(4)
        assert plain.doubled == 8
        again = made(plain)
        assert vars(again) == {"size": 4, "_hash": None}
        assert again.doubled == 8
        array = made({"a": np.arange(600, dtype=np.int16)})["a"]
        assert array.dtype == np.int16
        assert array.sum() == 599 * 300

    def test_what_has_a_name(self) -> None:
        assert construction(jax.nn.relu) == {"name": "jax._src.nn.functions:relu"}
        assert construction(closure(1.0), "m:RATE") == {"name": "m:RATE"}


class TestWhatHasNone:
    def test_says_which_part(self) -> None:
        with pytest.raises(NotEncodable, match=r"nothing says how to make a _thread\.lock"):
            construction(closure(1.0, also=VALUES["ring"].lock))
        with pytest.raises(NotEncodable, match="leads back to itself"):
            construction(VALUES["ring"])
        with pytest.raises(NotEncodable, match=r"no name leads to .*<lambda> \(<string>:1\)"):
            construction(eval("lambda x: x", {"__name__": "nowhere"}))
        with pytest.raises(NotEncodable, match=r"nothing says how to make a numpy\.ndarray"):
            construction(np.zeros(100_000))

    def test_too_deep(self) -> None:
        value: Any = ()
        for _ in range(40):
            value = (value,)
        with pytest.raises(NotEncodable, match="nested too deep"):
            construction(value)

    def test_what_is_in_the_program_itself(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Settings, "__module__", "__main__")
        monkeypatch.setattr(sys.modules["__main__"], "Settings", Settings, raising=False)
        with pytest.raises(NotEncodable, match="__main__:Settings is in the program itself; move"):
            construction(Settings(1))

    @pytest.mark.parametrize(
        "data",
        [
            {"name": "no_such_module:f"},
            {"name": "os:no_such_name"},
            {"function": ["os.path:join", "join.<locals>.f", 0, None, None, []]},
            {"call": [{"name": "fractions:Fraction"}, [["numerator", "x"]]]},
            {"method": [1]},
            {"set": ["dict", []]},
        ],
    )
    def test_nothing_else_is_raised_where_it_is_made(self, data: Any) -> None:
        with pytest.raises(ValueError):  # noqa: PT011 (the text depends on Python)
            decode(data, {**OTHERS, **DECODERS})


def test_without_constructions() -> None:
    tree = ["node", "m:T", {"tuple": [1, {MADE: ["3.11", {"fingerprint": ["t", "d"]}, 1]}]}, "*"]
    expected = ["node", "m:T", {"tuple": [1, {"fingerprint": ["t", "d"]}]}, "*"]
    assert without_constructions(tree) == expected
