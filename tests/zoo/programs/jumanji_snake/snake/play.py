"""Jumanji's Snake: reset, step, and an episode of random legal moves."""

import jax
import jax.numpy as jnp
from jumanji.environments import Snake
from jumanji.wrappers import AutoResetWrapper

env = AutoResetWrapper(Snake(num_rows=5, num_cols=5, time_limit=40))


def reset(key):
    return env.reset(key)


def state():
    return env.reset(jax.random.PRNGKey(0))[0]


def step(state, action):
    return env.step(state, action)


def play(keys):
    def episode(key):
        state, timestep = env.reset(key)

        def body(carry, key):
            state, timestep = carry
            logits = jnp.where(timestep.observation.action_mask, 0.0, -jnp.inf)
            state, timestep = env.step(state, jax.random.categorical(key, logits))
            return (state, timestep), timestep.reward

        (state, timestep), rewards = jax.lax.scan(
            body, (state, timestep), jax.random.split(key, 12)
        )
        return timestep, rewards.sum()

    return jax.vmap(episode)(keys)
