"""Trees of flax, equinox, optax, and our own."""

from __future__ import annotations

import dataclasses

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import nnx

dense = nn.Dense(3)


def linen_params():
    return dense.init(jax.random.key(0), jnp.ones((1, 4)))


def linen_apply(params, x):
    return dense.apply(params, x)


def nnx_state():
    return nnx.state(nnx.Linear(4, 3, rngs=nnx.Rngs(0)))


def nnx_apply(state, x):
    graph = nnx.graphdef(nnx.Linear(4, 3, rngs=nnx.Rngs(0)))
    return nnx.merge(graph, state)(x)


def _mlp():
    return eqx.nn.MLP(4, 3, 8, 2, key=jax.random.key(1))


def equinox_arrays():
    return eqx.filter(_mlp(), eqx.is_array)


def equinox_apply(arrays, x):
    _, static = eqx.partition(_mlp(), eqx.is_array)
    return jax.vmap(eqx.combine(arrays, static))(x)


optimizer = optax.adam(1e-2)


def optax_params():
    return {"w": jnp.ones((4,)), "b": jnp.zeros(())}


def optax_state():
    return optimizer.init(optax_params())


def optax_step(params, state, x):
    gradients = jax.grad(lambda p: jnp.sum((x @ p["w"] + p["b"]) ** 2))(params)
    updates, state = optimizer.update(gradients, state)
    return optax.apply_updates(params, updates), state


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Ball:
    height: jax.Array
    speed: jax.Array
    steps: int = dataclasses.field(default=0, metadata={"static": True})


def ball():
    return Ball(jnp.float32(10.0), jnp.float32(0.0), 3)


def ball_step(state: Ball, dt: jax.Array) -> Ball:
    speed = state.speed - 9.81 * dt
    return Ball(state.height + speed * dt, speed, state.steps)


def ball_make(height: jax.Array) -> dict[str, Ball]:
    return {"ball": Ball(height, height * 0, 7)}
