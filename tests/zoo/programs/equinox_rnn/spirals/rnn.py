"""A recurrent classifier: many steps in one scan, a fixed point, and an ensemble."""

from collections.abc import Callable

import equinox as eqx
import equinox.internal as eqxi
import jax
import jax.lax as lax
import jax.numpy as jnp
import jax.random as jrandom
import optax
from jaxtyping import PyTree


class RNN(eqx.Module):
    hidden_size: int
    cell: eqx.Module
    linear: eqx.nn.Linear
    bias: jax.Array
    activation: Callable = eqx.field(static=True)

    def __init__(self, in_size, out_size, hidden_size, *, key, activation=jax.nn.sigmoid):
        ckey, lkey = jrandom.split(key)
        self.hidden_size = hidden_size
        self.cell = eqx.nn.GRUCell(in_size, hidden_size, key=ckey)
        self.linear = eqx.nn.Linear(hidden_size, out_size, use_bias=False, key=lkey)
        self.bias = jnp.zeros(out_size)
        self.activation = activation

    def __call__(self, xs: jax.Array) -> jax.Array:
        hidden = jnp.zeros((self.hidden_size,))

        def f(carry, inp):
            return self.cell(inp, carry), None

        out, _ = lax.scan(f, hidden, xs)
        return self.activation(self.linear(out) + self.bias)


optim = optax.adam(3e-3)


def make_model():
    return RNN(in_size=2, out_size=1, hidden_size=16, key=jrandom.PRNGKey(5678))


def make_opt_state():
    return optim.init(eqx.filter(make_model(), eqx.is_inexact_array))


@eqx.filter_value_and_grad
def compute_loss(model, x, y):
    pred_y = jax.vmap(model)(x)
    return -jnp.mean(y * jnp.log(pred_y) + (1 - y) * jnp.log(1 - pred_y))


@eqx.filter_jit
def make_step(model, x, y, opt_state):
    loss, grads = compute_loss(model, x, y)
    updates, opt_state = optim.update(grads, opt_state)
    model = eqx.apply_updates(model, updates)
    return loss, model, opt_state


@eqx.filter_jit(donate="all-except-first")
def make_steps(
    xy: tuple[jax.Array, jax.Array], model: RNN, opt_state: PyTree
) -> tuple[jax.Array, RNN, PyTree]:
    """Many steps in one scan: the arrays are carried, the rest is closed over."""
    params, static = eqx.partition(model, eqx.is_array)

    def body(carry, xy):
        params, opt_state = carry
        model = eqx.combine(params, static)
        loss, grads = compute_loss(model, *xy)
        updates, opt_state = optim.update(grads, opt_state)
        model = eqx.apply_updates(model, updates)
        return (eqx.filter(model, eqx.is_array), opt_state), loss

    (params, opt_state), losses = lax.scan(body, (params, opt_state), xy)
    return losses, eqx.combine(params, static), opt_state


@eqx.filter_jit
def settle(model: RNN, hidden: jax.Array, *, tol: float = 1e-4) -> tuple[jax.Array, jax.Array]:
    """Run the cell without input until it rests; differentiable by checkpointed loops."""

    def cond(carry):
        _, delta, _ = carry
        return delta > tol

    def body(carry):
        hidden, _, n = carry
        new = model.cell(jnp.zeros(2), hidden)
        return new, jnp.max(jnp.abs(new - hidden)), n + 1

    def run(hidden):
        out, _, n = eqxi.while_loop(
            cond,
            body,
            (hidden, jnp.array(jnp.inf), jnp.array(0)),
            max_steps=256,
            kind="checkpointed",
        )
        return jnp.sum(out**2), n

    (_, n), grad = eqx.filter_value_and_grad(run, has_aux=True)(hidden)
    return grad, n


@eqx.filter_vmap
def make_ensemble(key):
    return RNN(in_size=2, out_size=1, hidden_size=16, key=key)


def ensemble():
    return make_ensemble(jrandom.split(jrandom.PRNGKey(0), 4))


@eqx.filter_jit
@eqx.filter_vmap(in_axes=(eqx.if_array(0), None))
def evaluate_ensemble(model, x):
    return jax.vmap(model)(x)
