"""Functions under eqx.filter_jit: what is no array is static."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import optax


class Net(eqx.Module):
    weight: jax.Array
    scale: float
    activation: Callable

    def __call__(self, x):
        return self.activation(x @ self.weight) * self.scale


OPTIMIZER = optax.adam(1e-2)


def make_net():
    return Net(jnp.arange(8.0).reshape(4, 2) / 8, 0.5, jax.nn.relu)


def make_mlp():
    return eqx.nn.MLP(4, 2, 8, 2, key=jax.random.key(0))


def make_state():
    return OPTIMIZER.init(eqx.filter(make_mlp(), eqx.is_array))


@eqx.filter_jit
def forward(net, x):
    return {"y": net(x), "activation": net.activation, "rows": len(x)}


@eqx.filter_jit
def scaled(net, factor, x):
    return eqx.tree_at(lambda net: net.weight, net, net.weight * factor), net(x)


@eqx.filter_jit
def step(model, state, x, y):
    @eqx.filter_value_and_grad
    def loss(model):
        return jnp.mean((jax.vmap(model)(x) - y) ** 2)

    value, grads = loss(model)
    updates, state = OPTIMIZER.update(grads, state, eqx.filter(model, eqx.is_array))
    return eqx.apply_updates(model, updates), state, value


@eqx.filter_jit(donate="all-except-first")
def rest_donated(x, y):
    return x * y


@eqx.filter_jit(backend="cpu")
def on_backend(net, x):
    return x
