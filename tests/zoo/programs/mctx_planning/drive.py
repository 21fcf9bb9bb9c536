import jax
import numpy as np
from planning.search import params


def observation(count):
    return np.random.default_rng(0).normal(size=(count, 6)).astype(np.float32)


def plan(plan):
    key = jax.random.PRNGKey(1)
    invalid = np.array([[0, 0, 1, 0]], np.float32)
    return [plan(params(), key, observation(n), np.repeat(invalid, n, 0)) for n in (1, 3)]


def search(search):
    return search(params(), jax.random.PRNGKey(1), observation(2))
