import jax
import numpy as np
from snake.play import state


def reset(reset):
    return reset(jax.random.PRNGKey(3))


def step(step):
    s, timesteps = state(), []
    for number in range(5):
        s, timestep = step(s, np.int32(number % 4))
        timesteps.append(timestep)
    return s, timesteps


def play(play):
    return play(jax.random.split(jax.random.PRNGKey(1), 3))
