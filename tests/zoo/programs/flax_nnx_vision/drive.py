import numpy as np
from digits import model as digits
from flax import nnx


def batch(seed):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(4, 28, 28, 1)).astype(np.float32), rng.integers(0, 10, 4, np.int32)


def train_step(step):
    model, optimizer, metrics = digits.make_model(1), digits.make_optimizer(), digits.make_metrics()
    rngs = digits.make_rngs()
    for seed in range(3):
        step(model, optimizer, metrics, rngs, *batch(seed))
    return nnx.state((model, optimizer, rngs)), metrics.compute(), model


def eval_step(step):
    model, metrics = digits.make_model(0), digits.make_metrics()
    for seed in range(3):
        step(model, metrics, *batch(seed))
    return metrics.compute(), model


def tune_step(step):
    model, optimizer = digits.make_adapted(), digits.make_adapter_optimizer()
    found = [step(model, optimizer, *batch(0)) for _ in range(3)]
    return found, nnx.state((model, optimizer))
