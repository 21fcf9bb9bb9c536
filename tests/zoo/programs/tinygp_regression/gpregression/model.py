"""Gaussian process regression with tinygp: training, and a conditioned process as argument."""

import jax
import jax.numpy as jnp
import optax
from tinygp import GaussianProcess, kernels, transforms

optimizer = optax.adam(0.05)


def params():
    return {
        "log_amplitude": jnp.zeros(()),
        "log_scale": jnp.zeros(2),
        "log_noise": jnp.array(-2.0),
        "mean": jnp.zeros(()),
    }


def train_state():
    return params(), optimizer.init(params())


def data():
    x = jax.random.uniform(jax.random.key(0), (20, 2), minval=-2, maxval=2)
    return x, jnp.sin(2 * x[:, 0]) * jnp.cos(x[:, 1])


def build_gp(params, x):
    kernel = jnp.exp(params["log_amplitude"]) * transforms.Linear(
        jnp.exp(-params["log_scale"]), kernels.Matern52()
    )
    return GaussianProcess(kernel, x, diag=jnp.exp(params["log_noise"]), mean=params["mean"])


def loss(params, x, y):
    return -build_gp(params, x).log_probability(y)


def train_step(state, x, y):
    params, opt_state = state
    value, grads = jax.value_and_grad(loss)(params, x, y)
    updates, opt_state = optimizer.update(grads, opt_state)
    return (optax.apply_updates(params, updates), opt_state), value


def process():
    return build_gp(params(), data()[0])


def predict(gp: GaussianProcess, y, at):
    """Condition a process on observations; return mean, variance and samples elsewhere."""
    conditioned = gp.condition(y, at, diag=1e-3).gp
    return conditioned.loc, conditioned.variance, conditioned.sample(jax.random.key(1), (3,))
