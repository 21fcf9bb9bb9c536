"""Functions whose signatures decide what is computed. Tests name lines by `# @name`."""

import jax
import jax.numpy as jnp


def same(x, w, *, scale):
    return jax.nn.softmax(x @ w, axis=-1) * scale / x.shape[0]


def by_static(x, *, causal):
    y = x * 2
    if causal:
        y = jnp.tril(y)  # @by_static
    return y.sum()


def by_size(x):
    if x.shape[0] > 4:
        return jnp.sin(x)  # @by_size
    return jnp.cos(x)


def unrolled(x):
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i] ** 2  # @unrolled
    return total


def refuses_some(x):
    if x.shape[0] > 4:
        raise ValueError("too large")  # @refuses_some
    return x


LOG = []


def notes(x):
    LOG.append(x.shape)
    return x
