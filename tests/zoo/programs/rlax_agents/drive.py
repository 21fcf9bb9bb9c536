import jax
import numpy as np
from agents import dqn


def batch(seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(2, 8, 5, 2)).astype(np.float32)
    return dqn.Transition(
        observation=rows[0],
        action=rng.integers(0, 4, 8).astype(np.int32),
        reward=rows[0, :, 0, 0],
        discount=np.full(8, 0.9, np.float32),
        next_observation=rows[1],
    )


def learner_step(step):
    state, seen = dqn.initial_state(), []
    for number in range(4):
        state, errors = step(state, batch(number))
        seen.append(errors)
    return state, seen


def act(act):
    params, row = dqn.network_params(), np.ones((5, 2), np.float32)
    return [act(params, jax.random.PRNGKey(n), row, np.float32(0.3)) for n in range(3)]


def vtrace_loss(loss):
    rng = np.random.default_rng(0)
    ones = np.ones(10, np.float32)
    rows = rng.normal(size=(11, 6)).astype(np.float32)
    actions = rng.integers(0, 4, 10).astype(np.int32)
    behaviour = rng.normal(size=(10, 4)).astype(np.float32)
    return loss(dqn.actor_params(), rows, actions, ones, 0.9 * ones, behaviour)
