import jax.numpy as jnp
import numpy as np
from spirals import rnn


def batch(seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(8, 16, 2)).astype(np.float32)
    return x, rng.integers(0, 2, (8, 1)).astype(np.float32)


def make_step(step):
    model, opt_state, losses = rnn.make_model(), rnn.make_opt_state(), []
    for number in range(3):
        loss, model, opt_state = step(model, *batch(number), opt_state)
        losses.append(loss)
    return losses, model, opt_state


def make_steps(steps):
    x, y = zip(*(batch(number) for number in range(5)), strict=True)
    return steps((jnp.stack(x), jnp.stack(y)), rnn.make_model(), rnn.make_opt_state())


def settle(settle):
    hidden = np.full(16, 0.3, np.float32)
    return settle(rnn.make_model(), hidden), settle(rnn.make_model(), hidden, tol=1e-2)


def evaluate_ensemble(evaluate):
    return evaluate(rnn.ensemble(), batch()[0])
