import numpy as np
from resnet.train import initial_state


def batch(seed=0):
    rng = np.random.default_rng(seed)
    images = rng.normal(size=(4, 32, 32, 3)).astype(np.float32)
    return {"images": images, "labels": rng.integers(0, 10, 4).astype(np.int32)}


def train_step(step):
    state, losses = initial_state(), []
    for number in range(3):
        state, metrics = step(state, batch(number))
        losses.append(metrics["loss"])
    return state, losses


def predict(predict):
    return predict(initial_state(), batch()["images"])
