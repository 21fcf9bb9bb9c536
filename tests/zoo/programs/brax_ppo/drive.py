import jax
import numpy as np
from balance.agent import initial_env_state, initial_optimizer_state, initial_params


def env_step(step):
    state, rewards = initial_env_state(), []
    for number in range(4):
        state = step(state, np.full((4, 1), 0.2 * number, np.float32))
        rewards.append(state.reward)
    return state, rewards


def act(act):
    params = initial_params()
    rng = np.random.default_rng(0)
    key = np.array([0, 7], np.uint32)
    return [act(params, rng.normal(size=(n, 8)).astype(np.float32), key) for n in (1, 4)]


def train_step(step):
    params, opt_state, state = initial_params(), initial_optimizer_state(), initial_env_state()
    history = []
    for number in range(2):
        key = jax.random.PRNGKey(number)
        params, opt_state, state, metrics = step(params, opt_state, state, key)
        history.append(metrics)
    return params, opt_state, state, history
