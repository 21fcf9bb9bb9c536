"""Meshes and shardings of recorded calls: of arguments, of the jit, of the context, of results."""

from __future__ import annotations

from typing import Any

import pytest
from support.forks import forked

from aotbuild.record.call_log import read_call_log

pytestmark = pytest.mark.process
HERE = "support.watched_shardings"


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """What is recorded of each function of a program on two devices, by its name."""
    folder = tmp_path_factory.mktemp("shardings")
    assert forked(PROGRAM, devices=2, path=folder) == 2
    found = read_call_log(folder / "calls.jsonl")
    calls: dict[str, list[dict[str, Any]]] = {}
    for call in found.calls.values():
        function = found.functions[call.function]
        facts = {
            "problem": function.problem or call.problem,
            "mesh": call.mesh,
            "explicit": call.explicit_axes,
            "shardings": {a.name: a.shardings for a in call.arguments},
        }
        calls.setdefault(function.call, []).append(facts)
    return calls


PROGRAM = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from support import watched_shardings as functions
from aotbuild.record import Recorder

X = np.ones((4, 2), np.float32)
split = jax.device_put(X, functions.SPLIT)
whole = jax.device_put(X, NamedSharding(functions.MESH, PartitionSpec()))
explicit = jax.device_put(X, NamedSharding(functions.EXPLICIT, PartitionSpec("data")))
with Recorder("calls.jsonl"):
    for _ in range(2):
        functions.told(X)
        functions.of_result(X)
        functions.nameless()(X)
        functions.placed({"w": split}, whole)
        functions.doubled(explicit)
        with jax.set_mesh(functions.MESH):
            functions.inside(X)
print(jax.device_count())
"""


def test_arguments(calls: dict[str, list[dict[str, Any]]]) -> None:
    (call,) = calls[f"{HERE}:placed"]
    assert call == {
        "problem": "",
        "mesh": {"data": 2},
        "explicit": (),
        "shardings": {"params": (["data"],), "x": ([],)},
    }


@pytest.mark.parametrize("name", ["told", "of_result"])
def test_the_jit(calls: dict[str, list[dict[str, Any]]], name: str) -> None:
    """The manifest names the jit, which has the shardings."""
    (call,) = calls[f"{HERE}:{name}"]
    assert (call["problem"], call["mesh"]) == ("", {"data": 2})


def test_a_jit_that_no_module_has(calls: dict[str, list[dict[str, Any]]]) -> None:
    (call,) = calls[f"{HERE}:split"]
    assert call["problem"].startswith("its shardings are those of its jit: assign its jit")


def test_explicit_axes_and_the_context(calls: dict[str, list[dict[str, Any]]]) -> None:
    (explicit,), (context,) = calls[f"{HERE}:doubled"], calls[f"{HERE}:inside"]
    assert (explicit["mesh"], explicit["explicit"]) == ({"data": 2}, ("data",))
    assert explicit["shardings"] == {"x": (["data"],)}
    assert (context["mesh"], context["explicit"]) == ({"data": 2}, ())
    assert context["shardings"] == {"x": ()}
