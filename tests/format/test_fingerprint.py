"""Fingerprints of static data: what they notice, what they leave out, and what is refused."""

from __future__ import annotations

import functools
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import static_model

from aotbuild.format.identity import Fingerprinter, Identities, is_decodable
from aotbuild.format.tree import describe
from aotbuild.format.values import NotEncodable

SOURCE = Path(static_model.__file__).read_text()


def digest(value: object) -> str:
    return Fingerprinter().digest(value)


def edited(monkeypatch: pytest.MonkeyPatch, *edits: tuple[str, str], name: str = "") -> Any:
    """Return the values of the model after edits of its source, which is imported again."""
    source = SOURCE
    for before, after in edits:
        assert before in source
        source = source.replace(before, after)
    module = types.ModuleType(name or static_model.__name__)
    monkeypatch.setitem(__import__("sys").modules, module.__name__, module)
    exec(compile(source, "elsewhere.py", "exec"), vars(module))
    return {key: digest(value) for key, value in module.values().items()}


def changed(one: dict[str, str], other: dict[str, str]) -> list[str]:
    return [name for name in one if one[name] != other[name]]


def test_a_module_that_is_imported_again_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    again = edited(monkeypatch, ('"""A model', '# moved\n\n\n"""A model'))
    assert changed(edited(monkeypatch), again) == []


@pytest.mark.parametrize(
    ("edit", "names"),
    [
        (("scale(0.001)", "scale(0.002)"), ["optimizer"]),
        (("x * y + 7", "x * y + 8"), ["lambda"]),
        (("x * y + 7", "y * x + 7"), ["lambda"]),
        (("x, y=3:", "x, y=4:"), ["lambda"]),
        (("Dense(8, max", "Dense(9, max"), ["field"]),
        (("Dense(8, max", "Dense(8, min"), ["field"]),
        (('np.dtype("int32")', 'np.dtype("int64")'), ["field"]),
        (("lambda x: x + 1", "lambda x: x + 2"), ["bound method"]),
        (("factor = 1.0", "factor = 1.5"), ["optimizer"]),
        (("depth=2", "depth=3"), ["keyword default"]),
        (("count(n - 1)", "count(n - 2)"), ["recursive"]),
        (("count_down(5)", "count_down(6)"), ["recursive"]),
        (("2 * self.width", "3 * self.width"), ["local class"]),
        (("Ring(3).step", "Ring(4).step"), ["ring's method"]),
        (("b=np.float32(2)", "b=np.float32(3)"), ["mapping"]),
        (("b=1, a=2", "a=2, b=1"), ["ordered"]),
        (("rate=0.5", "rate=0.25"), ["partial"]),
        (('tagged("a", "b")', 'tagged("a", "c")'), ["text"]),
        (("np.arange(1000)", "np.arange(1000)[::-1]"), ["array"]),
        (("defaultdict(list", "defaultdict(set"), ["default"]),
        (('"a".join', '"b".join'), ["methods"]),
    ],
)
def test_a_change_is_noticed(
    edit: tuple[str, str], names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert changed(edited(monkeypatch), edited(monkeypatch, edit)) == names


def test_the_module_of_a_method_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = edited(monkeypatch), edited(monkeypatch, name="another.model")
    assert {"bound method", "optimizer", "field"} <= set(changed(here, there))


def test_caches_hashes_and_locks_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    values = edited(monkeypatch)
    assert values["ring"] == values["ring in use"]
    fresh = static_model.Frozen(a=1, b=np.float32(2))
    assert digest(fresh) == digest(static_model.hashed(static_model.Frozen(a=1, b=np.float32(2))))


def test_what_is_shared_and_what_is_equal_are_alike() -> None:
    part = static_model.scale(0.5)
    assert digest([part, part]) == digest([part, static_model.scale(0.5)])


def test_attributes_of_a_local_function_count() -> None:
    one, other = (lambda: 0), (lambda: 0)
    vars(one)["k"] = 2
    assert digest(one) != digest(other)


def test_cycles_are_alike_wherever_they_were_met_before() -> None:
    ring, maker = static_model.Ring(3), Fingerprinter()
    alone = digest(ring.links)
    maker.digest(ring)
    assert maker.digest(ring.links) == alone
    assert digest(ring) != digest(ring.links)


def test_names_lead_to_functions() -> None:
    """Also to one that a decorator wrapped, and to one that stands in a package around."""
    assert digest(jnp.add) != digest(jnp.subtract)
    wrapped = jnp.tanh.__wrapped__
    assert digest(wrapped) == digest(jnp.tanh.__wrapped__) != digest(jnp.tanh)


def of_jax() -> dict[str, Callable[[float], Any]]:
    """Return makers of jax's objects, each from a number."""
    device = jax.devices()[0]
    mesh = jax.sharding.Mesh(np.array([device]), ("x",))
    return {
        "jit": lambda n: jax.jit(lambda x: x * n),
        "custom_jvp": lambda n: jax.custom_jvp(lambda x: x * n),
        "custom_vjp": lambda n: jax.custom_vjp(lambda x: x * n),
        "vectorized": lambda n: jnp.vectorize(lambda x: x * n),
        "array": lambda n: jnp.array([n, 2.0]),
        "key": lambda n: jax.random.key(int(n)),
        "bfloat16": lambda n: jnp.bfloat16(n),
        "treedef": lambda n: jax.tree.structure({int(n): 1}),
        "partial": lambda n: jax.tree_util.Partial(max, n),
        "mesh": lambda n: jax.sharding.Mesh(np.array([device]), (f"x{n}",)),
        "sharding": lambda n: jax.NamedSharding(mesh, jax.P("x", *[None] * int(n))),
        "initializer": lambda n: jax.nn.initializers.normal(n),
    }


@pytest.mark.parametrize("name", of_jax())
def test_objects_of_jax(name: str) -> None:
    make = of_jax()[name]
    assert digest(make(1.0)) == digest(make(1.0)) != digest(make(2.0))


def test_devices_count_by_their_kind() -> None:
    one, *_ = devices = jax.devices()
    assert {digest(device) for device in devices} == {digest(one)}
    assert digest(jax.sharding.SingleDeviceSharding(one)) != digest(one)


class Awkward:
    def __reduce__(self) -> Any:
        raise RuntimeError("not now")


def nested(depth: int) -> Any:
    return functools.reduce(lambda inner, _: functools.partial(max, inner), range(depth), 1)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ((i for i in ()), "a builtins.generator keeps its state where it cannot be read"),
        (threading.local(), "a _thread._local keeps its state where it cannot be read"),
        (Awkward(), r"reading a .*Awkward raised RuntimeError: not now"),
        (nested(200), "nested too deep or is too large to compare"),
        ([[] for _ in range(100_001)], "nested too deep or is too large to compare"),
        (np.broadcast_to(np.zeros(1), 1 << 26), "an array of 512 MiB is too large to compare"),
    ],
    ids=["generator", "thread local", "raises", "deep", "many", "large"],
)
def test_what_cannot_be_read_is_refused(value: object, reason: str) -> None:
    with pytest.raises(NotEncodable, match=reason):
        digest(value)


def test_plain_objects_are_told_apart_by_the_variables_of_modules() -> None:
    for value in (object(), [object()], functools.partial(max, object())):
        with pytest.raises(NotEncodable, match="nothing tells it from another one"):
            digest(value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(static_model, "OTHER", object(), raising=False)
        assert digest(static_model.OTHER) != digest(static_model.SENTINEL)


def test_a_tracer_is_refused() -> None:
    def traced(x: Any) -> Any:
        with pytest.raises(NotEncodable, match="it holds a value that is being traced"):
            digest([lambda: x])
        return x

    jax.make_jaxpr(traced)(1.0)


# --- identities ---------------------------------------------------------------------------------


def identity(value: object) -> Any:
    return Identities(describe, local=False).identity(value)


def test_data_of_numpy_and_trees_can_be_decoded() -> None:
    assert identity(np.int16(3)) == {"numpy": ["int16", "0300"]}
    assert identity(np.zeros((2, 1), "int8")) == {"numpy": ["int8", [2, 1], "0000"]}
    assert identity(jax.tree.structure([1])) == {"treedef": ["list", "*"]}
    assert is_decodable(identity({"a": (np.float32(1), jax.tree.structure((1, 2)))}))


def test_only_what_has_no_encoding_becomes_a_fingerprint() -> None:
    function = lambda x: x  # noqa: E731
    digest_of = digest(function)
    name = f"{__name__}.test_only_what_has_no_encoding_becomes_a_fingerprint.<locals>.<lambda>"
    found = identity((1, {"f": function}, np.zeros(100)))
    assert found["tuple"][:2] == [1, {"dict": [["f", {"fingerprint": [name, digest_of]}]]}]
    assert found["tuple"][2]["fingerprint"][0] == "numpy.ndarray"
    assert not is_decodable(found)
