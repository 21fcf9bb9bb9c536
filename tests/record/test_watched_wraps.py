"""Calls under `eqx.filter_jit` and `nnx.jit` are recorded as the program makes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from flax import nnx
from support import watched_wraps as functions

from aotbuild.record.call_log import CallLog, ObservedCall, ObservedFunction
from aotbuild.record.proposal import propose

HERE = "support.watched_wraps"
X, Y = np.ones((3, 4), np.float32), np.ones((3, 2), np.float32)


Record = Callable[[Callable[[], Any]], CallLog]


def of(found: CallLog, name: str) -> tuple[ObservedFunction, dict[str, ObservedCall]]:
    (function,) = (each for each in found.functions.values() if each.call == f"{HERE}:{name}")
    return function, found.of(function.key)


def test_a_train_step_of_equinox(recorded: Record, tmp_path: Path) -> None:
    """The jit is made where it is used; the model has functions among its leaves."""

    def work() -> None:
        model = eqx.nn.MLP(4, 2, 8, 1, key=jax.random.key(0))
        opt_state = functions.OPTIMIZER.init(eqx.filter(model, eqx.is_inexact_array))
        step = eqx.filter_jit(functions.make_step)
        for _ in range(4):
            _, model, opt_state = step(model, X, Y, opt_state)

    found = recorded(work)
    function, calls = of(found, "make_step")
    ((key, call),) = calls.items()
    assert (function.wrap, function.positional) == (
        "eqx.filter_jit",
        ("model", "x", "y", "opt_state"),
    )
    assert [call.problem, *(each.problem for each in call.arguments)] == [""] * 5
    assert found.tally([key]).calls == 4
    (entry,) = propose(found, tmp_path / "aot.yaml", "support").entries.values()
    assert [*entry.todos] == ["a equinox.nn._mlp.MLP", "a tuple"] or len(entry.todos) > 1


def test_static_leaves_of_equinox(recorded: Record) -> None:
    models = [
        eqx.nn.MLP(4, 2, 8, 1, activation=each, key=jax.random.key(0))
        for each in (jax.nn.relu, jax.nn.tanh)
    ]

    def work() -> None:
        for model in (*models, models[0]):
            for scale in (np.float32(2), 2.0):
                functions.predict(model, X, scale)

    found = recorded(work)
    _, calls = of(found, "predict")
    assert [found.tally([key]).calls for key in calls] == [3, 3]


def test_modules_of_flax(recorded: Record) -> None:
    one, other = (nnx.Linear(4, 2, rngs=nnx.Rngs(seed)) for seed in (0, 1))

    def work() -> None:
        for _ in range(3):
            functions.forward(one, X)
        functions.distance(one, other, X)
        functions.forward(functions.Tied(), X)

    found = recorded(work)
    function, calls = of(found, "forward")
    assert function.wrap == "nnx.jit"
    assert [found.tally([key]).calls for key in calls] == [3, 1]
    for call in (*calls.values(), *of(found, "distance")[1].values()):
        assert [call.problem, *(each.problem for each in call.arguments)] == [""] * (
            1 + len(call.arguments)
        )


def test_a_variable_of_two_arguments(recorded: Record) -> None:
    """An executable of two models would be wrong: each is described by itself."""
    one, other = (nnx.Linear(4, 2, rngs=nnx.Rngs(seed)) for seed in (0, 1))
    found = recorded(lambda: [functions.distance(one, each, X) for each in (other, one)])
    problems = [call.problem for call in of(found, "distance")[1].values()]
    shared = "model and other have a Variable in common: let one argument have both"
    assert problems == ["", shared]
