"""Functions under `nnx.jit` and `eqx.filter_jit` that tests of recordings call."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from flax import nnx

OPTIMIZER = optax.adam(1e-3)


def make_step(model: Any, x: Any, y: Any, opt_state: Any) -> Any:
    loss, grads = eqx.filter_value_and_grad(lambda m: jnp.mean((jax.vmap(m)(x) - y) ** 2))(model)
    updates, opt_state = OPTIMIZER.update(grads, opt_state, model)
    return loss, eqx.apply_updates(model, updates), opt_state


@eqx.filter_jit
def predict(model: Any, x: Any, scale: Any) -> Any:
    return jax.vmap(model)(x) * scale


@nnx.jit
def forward(model: Any, x: Any) -> Any:
    return model(x)


@nnx.jit
def distance(model: Any, other: Any, x: Any) -> Any:
    return model(x) - other(x)


class Tied(nnx.Module):
    """Two layers of one kernel."""

    def __init__(self) -> None:
        self.one = nnx.Linear(4, 4, rngs=nnx.Rngs(0))
        self.other = nnx.Linear(4, 4, rngs=nnx.Rngs(1))
        self.other.kernel = self.one.kernel

    def __call__(self, x: Any) -> Any:
        return self.other(self.one(x))
