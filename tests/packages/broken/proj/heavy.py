"""What needs libraries whose import takes a second, which each job of `bad` would take, too."""

import threading

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.experimental.sparse import linalg


class Module(eqx.Module):
    w: jax.Array
    hook: object = eqx.field(static=True)


def module():
    return [None, {"m": Module(jnp.zeros(2), threading.local())}]


def unequal(m, x):
    return m[1]["m"].w + x


whole_mlp = eqx.nn.MLP(2, 2, 2, 1, key=jax.random.key(0))


def apply_mlp(mlp, x):
    return x


def spsolve(x):
    data, indices, indptr = x[0, :3], jnp.arange(3), jnp.arange(4)
    return linalg.spsolve(data, indices, indptr, x[0, :3])  # @spsolve
