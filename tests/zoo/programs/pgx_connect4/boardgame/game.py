"""Connect four of pgx: vectorized steps, and a whole game of random moves."""

import jax
import jax.numpy as jnp
import pgx

env = pgx.make("connect_four")
GAMES = 4


def state():
    return jax.vmap(env.init)(jax.random.split(jax.random.PRNGKey(0), GAMES))


def step(state, action):
    return jax.vmap(env.step)(state, action)


def playout(state, key):
    """Play random legal moves until all games are over; return the last states and the moves."""

    def is_running(carry):
        return ~(carry[0].terminated | carry[0].truncated).all()

    def move(carry):
        state, key, moves = carry
        key, key_act = jax.random.split(key)
        logits = jnp.where(state.legal_action_mask, 0.0, -1e9)
        action = jax.random.categorical(key_act, logits)
        return jax.vmap(env.step)(state, action), key, moves + ~state.terminated

    state, _, moves = jax.lax.while_loop(
        is_running, move, (state, key, jnp.zeros(GAMES, jnp.int32))
    )
    return state, moves
