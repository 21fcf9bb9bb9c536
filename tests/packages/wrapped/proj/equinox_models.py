"""Functions under eqx.filter_jit: what is no array is static."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp


class Net(eqx.Module):
    weight: jax.Array
    scale: float
    activation: Callable

    def __call__(self, x):
        return self.activation(x @ self.weight) * self.scale


def make_net():
    return Net(jnp.arange(8.0).reshape(4, 2) / 8, 0.5, jax.nn.relu)


@eqx.filter_jit
def forward(net, x):
    return {"y": net(x), "activation": net.activation, "rows": len(x)}


@eqx.filter_jit
def scaled(net, factor, x):
    return eqx.tree_at(lambda net: net.weight, net, net.weight * factor), net(x)


@eqx.filter_jit(donate="all-except-first")
def rest_donated(x, y):
    return x * y
