import jax
import numpy as np
from moons import flow as moons


def points(size):
    return np.random.default_rng(0).normal(size=(size, 2)).astype(np.float32)


def log_prob(log_prob):
    flow = moons.make_flow()
    return [log_prob(flow, points(size)) for size in (1, 32)]


def sample(sample):
    return sample(moons.make_flow(), jax.random.key(5))


def fit_step(step):
    flow, opt_state, losses = moons.make_flow(), moons.make_opt_state(), []
    for number in range(3):
        flow, opt_state, loss = step(flow, opt_state, points(32), jax.random.key(number))
        losses.append(loss)
    return flow, opt_state, losses
