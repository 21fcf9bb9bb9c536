import jax
import numpy as np
from densities.model import mixture


def points(count):
    return np.random.default_rng(0).normal(size=(count, 2)).astype(np.float32)


def score(score):
    return [score(mixture(), points(count)) for count in (1, 5)]


def fit(fit):
    density = mixture()
    for _ in range(3):
        density = fit(density, points(5))
    return density


def hmc(hmc):
    return hmc(jax.random.PRNGKey(0), points(6).reshape(12))
