"""Libraries whose import takes a second, which each job of `pure` would take, too."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from flax import nnx


def library(x):
    """Use what keeps functions, meshes or thunks in its equations: their addresses differ."""
    wanted = [jnp.sin, jnp.cos, lambda y: y * 2]
    total = jax.lax.switch(jnp.int32(x[0]), wanted, x) + jax.lax.associative_scan(jnp.add, x)
    total += jnp.vectorize(lambda y: y + 1)(x) + jax.lax.sort((x, total), num_keys=1)[1]
    total += jax.hessian(lambda y: jnp.sum(jax.checkpoint(jnp.tanh)(y) ** 3))(x) @ x
    total += jax.scipy.sparse.linalg.cg(lambda y: y * 2, x)[0]
    total += jax.lax.custom_root(lambda y: y - x, x, lambda f, y: f(y), lambda _, y: y / 2)
    total += eqx.filter_jit(eqx.nn.LayerNorm(4))(x) + jax.linear_transpose(lambda y: y * 3, x)(x)[0]
    model = nnx.Sequential(nnx.Linear(4, 4, rngs=nnx.Rngs(0)), nnx.BatchNorm(4, rngs=nnx.Rngs(0)))
    return total + model(x[None])[0], optax.adamw(1e-3).init(x)[0].mu
