"""Shardings that `like:` names, and those that `feedback:` keeps."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.forks import forked
from support.projects import build, failed_units, write_project

from aotbuild.build.pack import Package
from aotbuild.format.record import Calling

pytestmark = pytest.mark.process

SOURCE = """
import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P


@partial(jax.tree_util.register_dataclass, data_fields=["params", "step"], meta_fields=["name"])
@dataclasses.dataclass(frozen=True)
class State:
    params: dict
    step: object
    name: str = "s"


def init():
    return State({"w": jnp.ones((8, 4)), "b": jnp.ones(4), "deep": [jnp.ones((4, 4))]}, 0)


# It stops above `deep`, and the static data is another.
SPECS = State({"w": P("data", "model"), "b": None, "deep": P(None, "model")}, None, "t")


def step(state, x):
    change = jnp.tanh(x @ state.params["w"] + state.params["b"]).mean()
    return State(jax.tree.map(lambda p: p - change, state.params), state.step + 1), change


def gather(state, x):
    state, change = step(state, x)
    params = {**state.params, "w": jax.lax.with_sharding_constraint(state.params["w"], P())}
    return State(params, state.step), change


def of_context():
    assert jax.sharding.get_abstract_mesh().shape == {"data": 2, "model": 2}
    return {"params": {"w": NamedSharding(grid(), P("model"))}}


def grid(names=("data", "model")):
    return Mesh(np.array(jax.devices()).reshape(2, 2), names, axis_types=(AxisType.Auto,) * 2)


def arrays():
    state, split = init(), NamedSharding(grid(), P("data"))
    return State(jax.device_put(state.params, split), state.step)


def result_specs():
    return SPECS, P()


def raises():
    raise ValueError("no rules")


LOGICAL = {"params": {"w": ("embed", "mlp")}}
UNKNOWN = {"params": {"w": P("rows")}}
NOWHERE = {"weights": P("data")}


def over_another():
    return NamedSharding(grid(("a", "b")), P("a"))
"""

HEAD = """
version: 1
package: proj
functions:
"""
STEP = """
    call: proj.m:step
    args: [state: {like: "proj.m:init"}, x: "f32[4,8]"]
    mesh: {data: 2, model: 2}
"""
FED = f"{STEP}    feedback: state\n"
GOOD = {
    "of_object": f'{FED}    in_shardings: {{state: {{like: "proj.m:SPECS"}}}}',
    "of_function": f'{STEP}    in_shardings: {{state: {{like: "proj.m:of_context"}}}}',
    "of_arrays": f'{STEP}    in_shardings: {{state: {{like: "proj.m:arrays"}}, x: [data]}}',
    "elsewhere": STEP.replace("step", "gather")
    + '    in_shardings: {state: {like: "proj.m:arrays"}}',
    "below": f'{STEP}    in_shardings: {{state: {{params: {{like: "proj.m:BELOW"}}}}}}',
    "of_results": f'{STEP}    out_shardings: {{like: "proj.m:result_specs"}}',
}
BAD = {
    "raises": ("like: proj.m:raises raised", "ValueError: no rules", "Expected a tree of"),
    "LOGICAL": ("like: proj.m:LOGICAL['params']['w'][0] is a builtins.str\nExpected a tree of",),
    "UNKNOWN": ("UNKNOWN['params']['w']: the mesh has no axis 'rows', only data, model",),
    "NOWHERE": ("in_shardings: state leads to no array; the arrays are state.params['b']",),
    "over_another": ("like: proj.m:over_another is over Mesh", "write its axes under mesh:"),
    "missing": ("proj.m has no 'missing'",),
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    functions = "".join(f"  {name}:{options}\n" for name, options in GOOD.items())
    below = 'BELOW = {"w": P("model"), "deep": [P("data")]}\n'
    return write_project(tmp_path_factory.mktemp("shardings"), HEAD + functions, m=SOURCE + below)


@pytest.fixture(scope="module")
def built(root: Path) -> Package:
    return build(root)


def calling(built: Package, name: str) -> Calling:
    (record,) = (record for record in built.records if record.calling.name == name)
    return record.calling


# In the order of leaves: b, deep[0], w, step, x.
@pytest.mark.parametrize(
    ("name", "specs"),
    [
        ("of_object", ((), (None, "model"), ("data", "model"), (), ())),
        ("of_function", ((), (), ("model",), (), ())),
        ("of_arrays", (("data",), ("data",), ("data",), (), ("data",))),
        ("below", ((), ("data",), ("model",), (), ())),
    ],
)
def test_like(built: Package, name: str, specs: object) -> None:
    assert calling(built, name).in_specs == specs


def test_what_is_passed_back_stays_where_it_is(built: Package) -> None:
    found = calling(built, "of_object")
    assert found.out_specs[:4] == found.in_specs[:4]


def test_like_of_results(built: Package) -> None:
    expected = ((), (None, "model"), ("data", "model"), (), ())
    assert calling(built, "of_results").out_specs == expected


USE = """
import sys
import jax, numpy as np
import aotbuild
from proj import m
events = []
jax.monitoring.register_event_duration_secs_listener(
    lambda name, *_, **__: events.append(name) if name.startswith("/jax/core/compile") else None)
library = aotbuild.load(sys.argv[1])
x = np.arange(32, dtype="float32").reshape(4, 8)
state, expected = m.init(), m.init()
events.clear()
for _ in range(3):
    state, loss = library.of_object(state, x)
assert events == [], events
assert state.params["deep"][0].sharding.spec == m.P(None, "model")
for _ in range(3):
    expected, expected_loss = jax.jit(m.step)(expected, x)
np.testing.assert_allclose(state.params["w"], expected.params["w"], rtol=1e-6)
np.testing.assert_allclose(loss, expected_loss, rtol=1e-6)
print("null")
"""


def test_a_state_goes_around(root: Path, built: Package) -> None:
    forked(USE, str(root / "proj" / "_aot"), devices=4, path=root)


def test_what_like_must_not_name(tmp_path: Path) -> None:
    functions = "".join(
        f'  {name.lower()}:{STEP}    in_shardings: {{state: {{like: "proj.m:{name}"}}}}\n'
        for name in BAD
    )
    messages = failed_units(write_project(tmp_path, HEAD + functions, m=SOURCE))
    for name, words in BAD.items():
        message = messages[name.lower()]
        assert f"functions.{name.lower()}.in_shardings" in message
        assert all(word in message for word in words), message
