"""NUTS and random-walk Metropolis on a banana-shaped density."""

import blackjax
import jax
import jax.numpy as jnp


def logdensity(position):
    x, y = position["x"], position["y"]
    return -0.5 * (x**2 + (y - 0.5 * (x**2 - 1)) ** 2 / 0.25).sum()


def start():
    return {"x": jnp.array([0.5, -0.1]), "y": jnp.array([0.1, 0.3])}


nuts = blackjax.nuts(logdensity, step_size=0.2, inverse_mass_matrix=jnp.ones(4))
warmup = blackjax.window_adaptation(blackjax.nuts, logdensity, max_num_doublings=3)


def nuts_state():
    return nuts.init(start())


def nuts_step(key, state):
    """One transition: the new state and what is known of it."""
    return nuts.step(key, state)


def chain(key, state):
    def step(state, key):
        state, info = nuts.step(key, state)
        return state, (state.position, info.acceptance_rate)

    return jax.lax.scan(step, state, jax.random.split(key, 20))


def adapt(key, position):
    (state, parameters), _ = warmup.run(key, position, num_steps=30)
    return state, parameters
