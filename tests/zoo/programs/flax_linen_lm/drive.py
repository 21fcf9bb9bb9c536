import jax
import numpy as np
from lm.model import init_cache, init_params, init_state


def train_step(step):
    state, metrics = init_state(), []
    rng = np.random.default_rng(0)
    for _ in range(3):
        tokens = rng.integers(1, 128, (2, 17)).astype(np.int32)
        batch = {"inputs": tokens[:, :-1], "targets": tokens[:, 1:]}
        state, values = step(state, batch, dropout_rng=jax.random.PRNGKey(3))
        metrics.append(values)
    return state, metrics


def predict_step(step):
    params, cache, tokens = init_params(), init_cache(), np.ones((2, 1), np.int32)
    for _ in range(4):
        tokens, cache = step(params, cache, tokens)
    return tokens, cache
