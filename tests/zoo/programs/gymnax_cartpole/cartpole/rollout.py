"""CartPole with a small policy: an environment step, and a batch of rollouts."""

import gymnax
import jax
import jax.numpy as jnp

env, _ = gymnax.make("CartPole-v1")


def env_params():
    return env.default_params


def env_state():
    return env.reset(jax.random.key(0), env.default_params)[1]


def step(key, state, action, params):
    return env.step(key, state, action, params)


def policy_params():
    key = jax.random.key(1)
    return {"w1": jax.random.normal(key, (4, 8)), "w2": jax.random.normal(key, (8, 2))}


def rollout(policy, keys):
    """Return the rewards of one episode for each key, cut at 20 steps."""

    def episode(key):
        key_reset, key_steps = jax.random.split(key)
        obs, state = env.reset(key_reset, env.default_params)

        def body(carry, key):
            obs, state = carry
            key_act, key_step = jax.random.split(key)
            logits = jnp.tanh(obs @ policy["w1"]) @ policy["w2"]
            action = jax.random.categorical(key_act, logits)
            obs, state, reward, *_ = env.step(key_step, state, action, env.default_params)
            return (obs, state), (reward, action)

        return jax.lax.scan(body, (obs, state), jax.random.split(key_steps, 20))[1]

    return jax.vmap(episode)(keys)
