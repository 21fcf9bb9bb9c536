"""Small functions of every kind that can be damaged: fused loops, constants, LAPACK."""

import jax
import jax.numpy as jnp

WEIGHTS = jnp.sin(jnp.arange(64.0 * 32)).reshape(64, 32)


def double(x: jax.Array) -> jax.Array:
    return jnp.sin(x) * 2


def shift(x: jax.Array) -> jax.Array:
    return jnp.sin(x) + 1


def table(x: jax.Array) -> dict[str, jax.Array]:
    return {"scores": jnp.tanh(x @ WEIGHTS), "sum": x.sum(axis=1)}


def factor(a: jax.Array) -> jax.Array:
    return jnp.linalg.cholesky(a @ a.T + 8 * jnp.eye(8))
