"""`feedback:`: a result that is passed back, where its avals are not those of the argument."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.forks import forked
from support.projects import build, write_project

import aotbuild
from aotbuild.build.pack import Package
from aotbuild.errors import BuildError
from aotbuild.format.record import Record

pytestmark = pytest.mark.process

SOURCE = """
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class State(NamedTuple):
    mean: Any
    best: Any
    count: Any


def init():
    return State(jnp.zeros(3), 0, 0)


def tell(state, x):
    state = State(state.mean + x.mean(0), jnp.minimum(state.best, x.min()), state.count + 1)
    return state, {"best": state.best}


def given():
    return {"state": State(np.ones(3, np.float32), 4, 7)}


def both(p, m, x):
    return p * x, m + x


def grow(cache):
    return jnp.concatenate([cache, jnp.ones(1)])


def flip(x):
    # Another dtype in each of its first calls.
    kinds = ("float32", "float16", "bfloat16", "int32", "int16")
    return x.astype(kinds[kinds.index(str(x.dtype)) + 1])
"""

GOOD = """
version: 1
package: proj
targets: [cpu, portable]
functions:
  tell:
    call: proj.m:tell
    args: [state: {like: "proj.m:init"}, x: "f32[b,3]"]
    dims: {b: [2, 4]}
    donate: [state]
    feedback: state
    verify: {inputs: "proj.m:given", golden: always}
  both: {call: "proj.m:both", args: [p: "~f32[2]", m: "i32[2]", x: "f32[2]"], feedback: [p, m]}
"""

BAD = """
version: 1
package: proj
targets: [cpu, portable]
functions:
  grow: {call: "proj.m:grow", args: [cache: "f32[1]"], feedback: cache}
  flip: {call: "proj.m:flip", args: [x: "f32[2]"], feedback: x}
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    return build(write_project(tmp_path_factory.mktemp("feedback"), GOOD, m=SOURCE))


def records(package: Package, name: str) -> dict[str, Record]:
    """Return the executables of a function by the label of their signature."""
    found = (r for r in package.records if r.function == name and not r.target.is_portable)
    return {r.provenance["label"]: r for r in found}


def leaves(record: Record) -> list[str]:
    return [*map(str, record.signature.leaves)]


def test_both_signatures_are_compiled(package: Package) -> None:
    found = records(package, "tell")
    assert [*found] == [
        "tell(b=2)",
        "tell(b=2) after feedback",
        "tell(b=4)",
        "tell(b=4) after feedback",
    ]
    assert leaves(found["tell(b=2)"]) == ["f32[3]", "~i32[]", "~i32[]", "f32[2,3]"]
    assert leaves(found["tell(b=2) after feedback"]) == ["f32[3]", "f32[]", "~i32[]", "f32[2,3]"]


def test_results_of_numpy_have_no_weak_types(tmp_path: Path) -> None:
    """A wheel that requires no jax had no signature for the second call of such a loop."""
    source = """
import jax.numpy as jnp
def init(): return {"x": jnp.zeros(4), "n": 0}
def step(state): return {"x": state["x"] + 1, "n": state["n"] + 1}
"""
    manifest = """\
version: 1
package: proj
runtime: jaxlib
functions:
  step: {call: "proj.m:step", args: [state: {like: "proj.m:init"}], feedback: state}
"""
    package = build(write_project(tmp_path, manifest, m=source))
    found = records(package, "step")
    assert [leaves(record)[0] for record in found.values()] == ["~i32[]", "i32[]"]
    library = aotbuild.load(package.folder, arrays="numpy")
    state: Any = {"x": np.zeros(4, np.float32), "n": 0}
    for _ in range(3):
        state = library.step(state)
    assert int(state["n"]) == 3


def test_golden_outputs_belong_to_each(package: Package) -> None:
    for record in records(package, "tell").values():
        assert record.golden is not None
        # Leaves of `verify: inputs:`, as dtypes of this signature.
        assert [leaf for leaf, _ in record.golden.inputs] == [0, 1, 2]


def test_calls_pass_the_state_on_without_a_trace(package: Package) -> None:
    code = """
import json, jax, numpy as np, aotbuild
from proj import m
lib, events = aotbuild.load("proj"), []
jitted = jax.jit(m.tell)
state = again = m.init()
same = []
for number in range(3):
    x = np.full((2, 3), -number - 0.5, np.float32)
    again, _ = jitted(again, x)
    jax.monitoring.register_event_duration_secs_listener(lambda name, *a, **k: events.append(name))
    state, _ = lib.tell(state, x)
    jax.monitoring.clear_event_listeners()
    for a, b in zip(state, again):
        same.append(bool((a == b).all()) and (a.dtype, a.weak_type) == (b.dtype, b.weak_type))
slow = [name for name in events if "trace" in name or "compile" in name]
print(json.dumps([all(same), len(same), slow, lib.stats()["misses"]]))
"""
    assert forked(code, path=package.folder.parents[1]) == [True, 9, [], 2]


def test_several_arguments_and_several_rounds(package: Package) -> None:
    found = records(package, "both")
    assert [(label, leaves(record)[:2]) for label, record in found.items()] == [
        ("both()", ["~f32[2]", "i32[2]"]),
        ("both() after feedback", ["f32[2]", "f32[2]"]),
    ]


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    root = write_project(tmp_path_factory.mktemp("bad"), BAD, m=SOURCE)
    with pytest.raises(BuildError) as caught:
        build(root)
    return {failure.unit: failure.message for failure in caught.value.failures}


@pytest.mark.any_jax
@pytest.mark.parametrize(
    ("unit", "message"),
    [
        ("flip() after feedback 3 for cpu", (
            "functions.flip.feedback: the avals of `x` change with each of 4 calls\n"
            "Return it with the dtype that it has, or leave it out of feedback."
        )),
        ("grow() for cpu", (
            "functions.grow.feedback: no part of the result has the tree and shapes of `cache`\n"
            "  expected ShapeDtypeStruct(shape=(1,), dtype=float32)\n"
            "  found    ShapeDtypeStruct(shape=(2,), dtype=float32)\n"
            "Return the argument's type, with equal static data, as the result or as an element "
            "of a tuple, list or dict; or leave it out of feedback."
        )),
    ],
)  # fmt: skip
def test_refused(failures: dict[str, str], unit: str, message: str) -> None:
    (found,) = [text for name, text in failures.items() if name.startswith(unit)]
    assert found == message
