import jax
import numpy as np
from tickets import model as tickets


def policy(policy):
    distribution = policy(tickets.make_params(), np.ones((2, 4), np.float32))
    return distribution, distribution.sample(seed=jax.random.key(1))


def act(act):
    return act(tickets.example_distribution(), jax.random.key(2))


def density(density):
    x = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
    return [density(x[:1]), density(x)]


def hmm_posterior(posterior):
    observations = np.sin(np.arange(20, dtype=np.float32))
    return posterior(np.eye(3, dtype=np.float32), np.float32([-1, 0, 1]), observations)
