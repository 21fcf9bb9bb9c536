import jax
import jax.numpy as jnp
from cartpole.rollout import env_params, env_state, policy_params


def step(step):
    state, results = env_state(), []
    for number in range(4):
        obs, state, *rest = step(jax.random.key(number), state, jnp.int32(number % 2), env_params())
        results.append((obs, rest))
    return state, results


def rollout(rollout):
    return rollout(policy_params(), jax.random.split(jax.random.key(2), 4))
