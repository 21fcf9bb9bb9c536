import numpy as np
from hopper.simulation import data, model


def step(step):
    m, d = model(), data()
    for number in range(5):
        d = step(m, d, np.full(1, 0.1 * number, np.float32))
    return d.qpos, d.qvel, d.time, d.xpos


def rollout(rollout):
    rng = np.random.default_rng(0)
    qpos = rng.normal(size=(4, 3), scale=0.1).astype(np.float32)
    return rollout(qpos, rng.uniform(-1, 1, (4, 5, 1)).astype(np.float32))
