import numpy as np
from finetune import steps


def batch(seed):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(4, 8)).astype(np.float32), rng.integers(0, 3, 4).astype(np.int32)


def train(step, state):
    params, seen = steps.make_params(), []
    for number in range(4):
        params, state, *rest = step(params, state, *batch(number))
        seen.append(rest)
    return params, state, seen


def grouped_step(step):
    return train(step, steps.grouped_state())


def masked_step(step):
    return train(step, steps.masked_state())


def schedule_free_step(step):
    return train(step, steps.schedule_free_state())


def lbfgs_step(step):
    return train(step, steps.lbfgs_state())
