import numpy as np
from sharded import step as sharded


def train_step(step):
    params, opt_state, losses = sharded.make_params(), sharded.make_opt_state(), []
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(8, 8)).astype(np.float32), rng.normal(size=(8, 4)).astype(np.float32)
    for _ in range(3):
        params, opt_state, loss = step(params, opt_state, x, y)
        losses.append(loss)
    return params, opt_state, losses
