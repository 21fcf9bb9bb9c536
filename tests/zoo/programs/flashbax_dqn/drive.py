import jax
import numpy as np
from replay.agent import buffer, buffer_state, learner, prioritised_state


def batch(seed):
    rng = np.random.default_rng(seed)
    return {
        "obs": rng.normal(size=(2, 3)).astype(np.float32),
        "action": rng.integers(0, 4, 2).astype(np.int32),
        "reward": rng.normal(size=2).astype(np.float32),
        "discount": np.ones(2, np.float32),
    }


def add(add):
    state = buffer_state()
    for seed in range(5):
        state = add(state, batch(seed))
    return state


def learn(learn):
    state, agent, losses = buffer_state(), learner(), []
    for seed in range(4):
        state = buffer.add(state, batch(seed))
    for seed in range(3):
        agent, loss = learn(agent, state, jax.random.key(seed))
        losses.append(loss)
    return agent, losses


def replay(replay):
    state, samples = prioritised_state(), []
    for seed in range(4):
        state, sample = replay(state, batch(seed), jax.random.key(seed))
        samples.append(sample)
    return state, samples[2:]
