"""Static data in arguments, from the manifest to a call in another process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.processes import fresh
from support.projects import build, write_project

from aotbuild.errors import BuildError

pytestmark = pytest.mark.process

# As flax, optax and mjx have them.
STATE = """
import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class Transform(NamedTuple):
    init: Any
    update: Any


def schedule(start, steps):
    def at(count):
        nonlocal steps
        steps = float(steps)
        return start * (1 - count / steps)

    return at


def sgd(learning_rate):
    rate = schedule(learning_rate, 100)

    def update(gradients):
        return jax.tree.map(lambda g: -rate(1) * g, gradients)

    return Transform(lambda params: (), update)


@jax.tree_util.register_pytree_with_keys_class
@dataclasses.dataclass
class TrainState:
    params: Any
    apply_fn: Any = dataclasses.field(metadata={"pytree_node": False})
    tx: Any = dataclasses.field(metadata={"pytree_node": False})

    def tree_flatten_with_keys(self):
        return (((jax.tree_util.GetAttrKey("params"), self.params),), (self.apply_fn, self.tx))

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children, *aux)


@functools.partial(jax.tree_util.register_dataclass, data_fields=[], meta_fields=["sizes"])
@dataclasses.dataclass(frozen=True)
class Graph:
    sizes: Any


# As clu's metrics: a type for each name.
def averaged(name):
    @jax.tree_util.register_pytree_node_class
    @dataclasses.dataclass
    class Average:
        total: Any

        def tree_flatten(self):
            return (self.total,), None

        @classmethod
        def tree_unflatten(cls, aux, children):
            return cls(*children)

        def merge(self, **values):
            return type(self)(self.total + values[name])

    return Average


Loss = averaged("loss")


# As rejax's states: a type for each call, with the types of the values as annotations.
def collected(values):
    kinds = {name: type(value) for name, value in values.items()}
    made = dataclasses.dataclass(type("Collected", (), {"__annotations__": kinds}))
    jax.tree_util.register_dataclass(made, list(values), [])
    return made(**values)


class Opaque:
    def __reduce__(self):
        raise TypeError("not this one")


def make(apply, learning_rate=0.001):
    return TrainState({"w": jnp.ones(3)}, apply, sgd(learning_rate))
"""
MODEL = """
import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np

from proj import state


@dataclasses.dataclass
class Net:
    width: int
    activation: Any = jnp.tanh

    def apply(self, params, x):
        return self.activation(params["w"] * x) * self.width


def init(learning_rate=0.001, **fields):
    return state.make(Net(3, **fields).apply, learning_rate)


def step(state, x):
    gradients = {"w": state.apply_fn(state.params, x)}
    params = state.tx.update(gradients)
    return type(state)(params, state.apply_fn, state.tx), params["w"].sum()


def smaller(state):
    return type(state)(state.params["w"][:2], state.apply_fn, state.tx)


def graph(x):
    return state.Graph((np.int64(2), np.float32(0.5))), x


def opaque():
    return state.TrainState({"w": jnp.ones(3)}, state.Opaque(), state.sgd(0.001))


def add_loss(metrics):
    return {name: each.merge(loss=1.0, norm=2.0) for name, each in metrics.items()}


def metrics():
    return {"loss": state.Loss(jnp.zeros(()))}


def begin():
    return state.collected({"w": np.ones(3, "float32"), "count": np.int32(0)})


def advance(collected):
    return state.collected({"w": collected.w * 2, "count": collected.count + 1})


def opaque_step(state):
    return type(state)({"w": state.params["w"] * 2}, state.apply_fn, state.tx)
"""
MANIFEST = """
version: 1
package: proj
targets: [{cpu: {isa: x86-64-v3}}]
functions:
  step:
    call: proj.model:step
    args: [{state: {like: "proj.model:init"}}, {x: "f32[3]"}]
  smaller:
    call: proj.model:smaller
    args: [{state: {like: "proj.model:init"}}]
    static_data: {state.tx: ignore}
  graph:
    call: proj.model:graph
    args: [{x: "f32[3]"}]
  add_loss:
    call: proj.model:add_loss
    args: [{metrics: {like: "proj.model:metrics"}}]
  advance:
    call: proj.model:advance
    args: [{collected: {like: "proj.model:begin"}}]
  opaque_step:
    call: proj.model:opaque_step
    args: [{state: {like: "proj.model:opaque"}}]
    static_data: {state.apply_fn: ignore, state.tx: ignore}
"""

CALL = """
import json, sys
import jax, jax.monitoring, numpy as np
import aotbuild
from aotbuild.errors import SignatureMismatch
from proj import model, state

lib = aotbuild.load(sys.argv[1])
x = np.ones(3, "float32")
one, two, third = model.init(), model.init(0.002), model.init(activation=np.sin)
events = []
jax.monitoring.register_event_duration_secs_listener(lambda name, *_, **__: events.append(name))
again, loss = lib.step(one, x)
again, loss = lib.step(again, x)
cut = lib.smaller(two)
made, _ = lib.graph(x)
doubled = lib.opaque_step(model.opaque())
merged = lib.add_loss({"loss": state.Loss(np.float32(1))})["loss"]
begun = [state.collected({"w": x, "count": np.int32(n)}) for n in (0, 5)]
advanced = [lib.advance(each) for each in begun]
compiled = [event for event in events if "compile" in event]

def complaint(state, function=lib.step, *more):
    try:
        function(state, *more)
    except SignatureMismatch as error:
        return [line.strip() for line in str(error).splitlines()]

class Other(model.Net):
    pass

expected = model.step(model.step(one, x)[0], x)[1]
print(json.dumps({
    "loss": [float(loss), float(expected)],
    "same": [again.apply_fn == one.apply_fn, again.tx is one.tx, cut.tx is two.tx],
    "cut": cut.params.tolist(),
    "sizes": [repr(size) for size in made.sizes],
    "doubled": [doubled.params["w"].tolist(), type(doubled.apply_fn).__name__],
    "compiled": compiled,
    "made": [type(merged) is state.Loss, float(merged.total)],
    "advanced": [[type(a) is type(b), int(a.count)] for a, b in zip(advanced, begun)],
    "rate": complaint(two, lib.step, x),
    "field": complaint(third, lib.step, x),
    "module": complaint(state.make(Other(3).apply), lib.step, x),
    "type": complaint({"loss": state.averaged("norm")(np.float32(1))}, lib.add_loss),
}))
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("static") / "project"
    write_project(root, MANIFEST, state=STATE, model=MODEL)
    build(root)
    return root


@pytest.fixture(scope="module")
def called(root: Path) -> Any:
    return fresh(CALL, str(root / "proj" / "_aot"), path=root, PYTHONHASHSEED="7")


def test_results_are_those_of_the_function(called: Any) -> None:
    loss, expected = called["loss"]
    assert loss == pytest.approx(expected, rel=1e-6)
    assert called["compiled"] == []


def test_results_get_the_static_data_of_arguments(called: Any) -> None:
    assert called["same"] == [True, True, True]
    assert called["cut"] == [1, 1]
    assert called["doubled"] == [[2, 2, 2], "Opaque"]


def test_nodes_of_types_that_a_function_made(called: Any) -> None:
    assert called["made"] == [True, 2]
    assert called["advanced"] == [[True, 1], [True, 6]]


def test_static_data_is_decoded(called: Any) -> None:
    assert called["sizes"] == ["np.int64(2)", "np.float32(0.5)"]


@pytest.mark.parametrize(
    ("call", "place"),
    [
        ("rate", "state.tx"),
        ("field", "state.apply_fn"),
        ("module", "state.apply_fn"),
        ("type", "metrics['loss'](type)"),
    ],
)
def test_another_fingerprint_is_refused_at_its_place(called: Any, call: str, place: str) -> None:
    assert any(line.startswith(f"{place}: compiled with another ") for line in called[call])


@pytest.mark.any_jax
def test_a_place_that_leads_nowhere(tmp_path: Path) -> None:
    manifest = MANIFEST.replace("{state.tx: ignore}", "{}").replace(
        "  smaller:", "    static_data: {state.txx: ignore}\n  smaller:"
    )
    root = write_project(tmp_path / "project", manifest, state=STATE, model=MODEL)
    with pytest.raises(BuildError) as caught:
        build(root)
    words = "static_data: state.txx: no such static data (did you mean 'state.tx'?)"
    assert words in str(caught.value)


@pytest.mark.any_jax
def test_what_cannot_be_compared_is_named(tmp_path: Path) -> None:
    manifest = MANIFEST.replace("{state.apply_fn: ignore, state.tx: ignore}", "{state.tx: ignore}")
    root = write_project(tmp_path / "project", manifest, state=STATE, model=MODEL)
    with pytest.raises(BuildError) as caught:
        build(root)
    expected = (
        "argument state is a proj.state.TrainState, whose static data cannot be compared in "
        "another process: .apply_fn: a proj.state.Opaque keeps its state where it cannot be read"
    )
    assert expected in str(caught.value)
    assert "static_data: {place: ignore}" in str(caught.value)
