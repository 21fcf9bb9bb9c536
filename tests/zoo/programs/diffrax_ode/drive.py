import jax
import numpy as np
from pendulum import model as pendulum


def swing(swing):
    ts = np.linspace(0, 3, 20, dtype=np.float32)
    solution = swing(np.float32(0.5), np.float32(0.0), np.float32(0.1), np.float32(1.0), ts)
    return solution, solution.evaluate(np.float32(1.234))


def walk(walk):
    return [walk(jax.random.key(seed), np.float32([0.1, 0.2])) for seed in range(3)]


def make_step(step):
    model, opt_state, losses = pendulum.make_model(), pendulum.make_opt_state(), []
    ts = np.linspace(0, 1, 8, dtype=np.float32)
    ys = np.stack([np.stack([np.cos(ts + p), np.sin(ts + p)], -1) for p in range(4)])
    for _ in range(3):
        loss, model, opt_state = step(model, opt_state, ts, ys.astype(np.float32))
        losses.append(loss)
    return losses, model, opt_state
