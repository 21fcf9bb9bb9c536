"""Values as JSON: what is different stays different, in every process."""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import re
import threading
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aotbuild.format.canonical import canonical_json
from aotbuild.format.values import NotEncodable, decode, encode, is_plain


class Colour(enum.Enum):
    RED = 1


@dataclasses.dataclass(frozen=True)
class Options:
    width: int
    name: str


class Pair(NamedTuple):
    left: int
    right: int


class Plain:
    def __init__(self) -> None:
        self.rate = 0.5


# What only identity tells apart: a field more, a private slot, a member without a name.
Loose = dataclasses.make_dataclass("Loose", [], namespace={"__module__": __name__}, eq=False)
Slotted = type("Slotted", (), {"__slots__": ("__k",), "__module__": __name__})
Flag = enum.IntFlag("Flag", "A", module=__name__)
_MEMBERS = {"X": 2, "Y": 3, "name": property(lambda _: "same")}
Kind = enum.Enum("Kind", _MEMBERS, module=__name__)  # type: ignore[misc]


class Unit:
    _decomposed_cache: Plain | None = None
    _table_cache = 3

    @classmethod
    def parse(cls) -> Unit:
        return cls()


class Prefixed(Unit):
    pass


def local() -> type[Unit]:
    class Local(Unit):
        pass

    return Local


_TEXTS = st.text() | st.binary()
plain = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), _TEXTS),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(plain)
def test_round_trip(value: object) -> None:
    encoded = json.loads(canonical_json(encode(value)))
    assert decode(encoded) == value
    assert encode(decode(encoded)) == encode(value)


def test_equal_values_of_different_types_differ() -> None:
    values = [1, 1.0, True, (1,), [1], (1.0,), (True,), "1", b"1", 0.0, -0.0, None, "", (), []]
    values += [Flag(8), Flag(16), *Kind]
    encodings = {canonical_json(encode(value)) for value in values}
    assert len(encodings) == len(values)


@pytest.mark.parametrize(
    "value",
    [
        *(Colour.RED, Options(2, "a"), Pair(1, 2), Plain(), np.dtype("float32"), len, Options),
        *(functools.reduce, frozenset({1, 2})),
    ],
)
def test_objects_are_compared_but_never_decoded(value: object) -> None:
    assert encode(value) == encode(value)
    assert not is_plain(encode(value))


@pytest.mark.parametrize(
    "value",
    [
        *(lambda x: x, functools.partial(len), np.zeros(2), object(), np.float32(1), iter([])),
        *(threading.local(), type("Derived", (threading.local,), {})()),
    ],
    ids=["lambda", "partial", "array", "object", "scalar", "iterator", "local", "derived"],
)
def test_what_means_nothing_elsewhere_is_refused(value: object) -> None:
    with pytest.raises(NotEncodable):
        encode(value)


def test_a_kept_hash_is_left_out() -> None:
    """It depends on PYTHONHASHSEED; what a user calls hash does not."""
    one, other = Plain(), Plain()
    one._hash, other._hash = None, 5  # type: ignore[attr-defined]
    assert encode(one) == encode(other) == encode(Plain())
    other.hash = 7  # type: ignore[attr-defined]
    assert encode(other) != encode(one)


@pytest.mark.parametrize(("kind", "name"), [(Loose, "k"), (Slotted, "_Slotted__k")])
def test_what_only_identity_tells_apart(kind: type, name: str) -> None:
    one, other = kind(), kind()
    setattr(one, name, 2)
    assert encode(one) != encode(other)


def test_a_cache_that_its_class_leaves_empty_is_left_out() -> None:
    """What a user calls a cache, or sets in the class, does not."""
    one, other = Unit(), Unit()
    other._decomposed_cache = Plain()
    assert encode(one) == encode(other)
    for name in ("_table_cache", "_new_cache", "decomposed_cache"):
        changed = Unit()
        setattr(changed, name, 5)
        assert encode(changed) != encode(one), name


def test_a_class_method_is_found_by_its_name() -> None:
    assert encode(Unit.parse) == {"name": f"{__name__}:Unit.parse"}
    assert encode(Prefixed.parse) == {"name": f"{__name__}:Prefixed.parse"}
    with pytest.raises(NotEncodable, match="does not lead back"):
        encode(local().parse)


def test_a_ufunc_is_found_by_its_name() -> None:
    """A ufunc of jax has no `__qualname__`, and names another module than that of its class."""
    assert (encode(jnp.add), encode(np.add)) == ({"name": "jax.numpy:add"}, {"name": "numpy:add"})
    with pytest.raises(NotEncodable):
        encode(jnp.frompyfunc(lambda a, b: a * b, 2, 1))


@pytest.mark.parametrize(
    "data", [{"name": "os:system"}, {"object": ["os:environ", []]}, {"a": 1, "b": 2}, {}]
)
def test_decoding_never_runs_code(data: object) -> None:
    with pytest.raises(ValueError, match="not the encoding of a plain value"):
        decode(data)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (np.int64(3), "a numpy.int64 has no encoding; int(…) of it does"),
        (np.float64(3), "a numpy.float64 has no encoding; float(…) of it does"),
        (np.bool_(True), "bool(…) of it does"),
        (np.ones(3), "a numpy array is no static value"),
    ],
)
def test_values_of_numpy_are_no_static_ones(value: object, says: str) -> None:
    with pytest.raises(NotEncodable, match=re.escape(says)):
        encode(value)
