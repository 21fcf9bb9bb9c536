import jax
import numpy as np
from densities.model import parameters


def points(count):
    return np.random.default_rng(0).normal(size=(count, 2)).astype(np.float32)


def score(score):
    return [score(parameters(), points(count)) for count in (1, 5)]


def fit(fit):
    params = parameters()
    for _ in range(3):
        params = fit(params, points(5))
    return params


def hmc(hmc):
    return hmc(jax.random.PRNGKey(0), points(6).reshape(12))
