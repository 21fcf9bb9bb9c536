import jax
import numpy as np
from wordlm import model as wordlm


def update(step):
    state, losses = wordlm.initial_state(), []
    for seed in range(3):
        tokens = np.random.default_rng(seed).integers(0, 48, (12, 4)).astype(np.int32)
        state, loss = step(state, tokens)
        losses.append(loss)
    return state, losses


def sample(sample):
    params = wordlm.initial_params()
    firsts = [np.arange(size, dtype=np.int32) for size in (1, 3)]
    return [sample(params, jax.random.PRNGKey(3), first, length=10) for first in firsts]
