"""Binding: what a call is given, in the order of the signature, or Python's own complaint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aotbuild.errors import InvalidArgument, SignatureMismatch
from aotbuild.format.signature import Function, Static
from aotbuild.runtime import binding
from aotbuild.runtime.binding import Bound, Call, bind, rebind
from aotbuild.runtime.checked_blobs import DirectorySource
from aotbuild.runtime.concurrency import Stats
from aotbuild.runtime.jax.backend import JaxBackend

# def f(a, k, b, unused=None, *, c, d, mode="fast")
FUNCTION = Function(
    name="f",
    call="m:f",
    positional=("a", "k", "b", "unused"),
    dynamic=("a", "b"),
    keywords=("c", "d"),
    statics=(Static("k"), Static("mode", "fast")),
)


def flatten(bound: Bound) -> Call:
    return binding.flatten(bound, JaxBackend(DirectorySource(Path("nowhere")), Stats()))


def test_canonical_order_and_defaults() -> None:
    bound = bind(FUNCTION, (1, 2, 3), {"d": 4, "c": 5})
    assert (bound.args, bound.kwargs) == ((1, 3), {"c": 5, "d": 4})
    assert bound.statics == (("k", 2), ("mode", "fast"))
    assert bound.direct


@pytest.mark.parametrize(
    ("args", "kwargs", "direct"),
    [
        ((1, 2), {"b": 3, "c": 5, "d": 4}, True),
        ((), {"a": 1, "k": 2, "b": 3, "c": 5, "d": 4}, True),
        ((1, 2, 3), {"c": 5, "d": 4, "mode": "slow"}, True),
        ((1, 2.5, 3), {"c": 5, "d": 4}, True),
        ((1, 0.0, 3), {"c": 5, "d": 4}, False),
        ((1, (2,), 3), {"c": 5, "d": 4}, False),
    ],
)
def test_direct_calls(args: Any, kwargs: Any, direct: bool) -> None:
    bound = bind(FUNCTION, args, kwargs)
    assert (bound.args, bound.kwargs) == ((1, 3), {"c": 5, "d": 4})
    assert bound.direct == direct


def test_another_order_of_leaves_is_not_direct() -> None:
    function = Function("f", "m:f", ("z", "a"), ("z", "a"), (), ())
    assert not bind(function, (), {"z": 1, "a": 2}).direct
    assert bind(function, (), {"z": 1, "a": 2}).args == (1, 2)
    assert bind(function, (1,), {"a": 2}).direct


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((1, 2), {"c": 1, "d": 1}, "missing a required argument: 'b'"),
        ((1, 2, 3), {"c": 1}, "missing a required argument: 'd'"),
        ((1, 2, 3), {"c": 1, "d": 1, "e": 1}, "got an unexpected keyword argument 'e'"),
        ((1, 2, 3), {"c": 1, "d": 1, "a": 1}, "got multiple values for argument 'a'"),
        ((1,) * 5, {"c": 1, "d": 1}, "takes at most 4 positional arguments"),
        ((1, 2, 3, 4), {"c": 1, "d": 1}, "argument 'unused' is compiled in at its default"),
    ],
)
def test_wrong_arguments(args: Any, kwargs: Any, message: str) -> None:
    with pytest.raises(SignatureMismatch, match=message) as caught:
        bind(FUNCTION, args, kwargs)
    assert isinstance(caught.value, TypeError)
    assert caught.value.trace == ("expected f(a, k, b, *, c, d, mode='fast')",)


def test_all_wrong_arguments_are_reported_together() -> None:
    with pytest.raises(SignatureMismatch, match=r"'b'; missing .*'c'; .*'d'; got an unexpected"):
        bind(FUNCTION, (1, 2), {"x": 1})


def test_a_static_value_without_identity_is_refused() -> None:
    with pytest.raises(SignatureMismatch, match="static argument k is no value"):
        bind(FUNCTION, (1, lambda: 0, 3), {"c": 1, "d": 1})


@pytest.mark.parametrize("other", [(1.0,), (True,), [1], (1, 1)])
def test_static_keys_tell_types_apart_at_every_depth(other: Any) -> None:
    first = bind(FUNCTION, (1, (1,), 3), {"c": 1, "d": 1})
    assert first.statics_key != bind(FUNCTION, (1, other, 3), {"c": 1, "d": 1}).statics_key
    again = rebind(FUNCTION, first.statics_key, first.args, first.kwargs)
    assert flatten(again).signature.key() == flatten(first).signature.key()


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("text", "a str"),
        (object(), "a object"),
        (np.array("text"), "a numpy.ndarray: .*not a valid JAX"),
        (np.datetime64("2020"), "a numpy.datetime64"),
        (2**40, "a int: .*too large"),
    ],
)
def test_what_is_no_array_is_named_with_its_path(value: Any, found: str) -> None:
    with pytest.raises(InvalidArgument, match=found) as caught:
        flatten(bind(FUNCTION, ({"w": [1, value]}, 2, 3), {"c": 1, "d": 1}))
    assert caught.value.path == "a['w'][1]"


def test_a_shape_without_values_is_no_array() -> None:
    import jax

    struct = jax.ShapeDtypeStruct((2,), "float32")
    with pytest.raises(InvalidArgument, match="ShapeDtypeStruct"):
        flatten(bind(FUNCTION, (1, 2, struct), {"c": 1, "d": 1}))


def test_dict_keys_that_cannot_be_sorted() -> None:
    with pytest.raises(InvalidArgument, match="dict keys of one type"):
        flatten(bind(FUNCTION, ({1: 1, "a": 2}, 2, 3), {"c": 1, "d": 1}))
