"""A normalizing flow of flowjax: densities, samples, and one step of maximum likelihood."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import optax
import paramax
from flowjax.bijections import RationalQuadraticSpline
from flowjax.distributions import Normal
from flowjax.flows import coupling_flow
from flowjax.train.losses import MaximumLikelihoodLoss

optimizer = optax.adam(5e-3)


def make_flow():
    return coupling_flow(
        jr.key(0),
        base_dist=Normal(jnp.zeros(2)),
        transformer=RationalQuadraticSpline(knots=4, interval=4),
        flow_layers=3,
        nn_width=16,
        nn_depth=1,
    )


def make_opt_state():
    return optimizer.init(eqx.filter(make_flow(), eqx.is_inexact_array))


@eqx.filter_jit
def log_prob(flow, x):
    return flow.log_prob(x)


@eqx.filter_jit
def sample(flow, key):
    return flow.sample(key, (16,))


@eqx.filter_jit
def fit_step(flow, opt_state, x, key):
    params, static = eqx.partition(
        flow, eqx.is_inexact_array, is_leaf=lambda leaf: isinstance(leaf, paramax.NonTrainable)
    )
    loss, grads = eqx.filter_value_and_grad(MaximumLikelihoodLoss())(params, static, x, key=key)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return eqx.apply_updates(flow, updates), opt_state, loss
