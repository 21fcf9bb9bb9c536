import jax
import numpy as np
from mnist.train import create_state


def batch(size, seed=0):
    rng = np.random.default_rng(seed)
    images = rng.normal(size=(size, 28, 28, 1)).astype(np.float32)
    return images, rng.integers(0, 10, size).astype(np.int32)


def train_step(step):
    state, metrics = create_state(), []
    for number in range(3):
        state, values = step(state, *batch(8, number), jax.random.key(1))
        metrics.append(values)
    return state, metrics


def predict(predict):
    state = create_state()
    return [predict(state, batch(size)[0]) for size in (1, 8)]
