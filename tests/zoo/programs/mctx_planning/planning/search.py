"""Gumbel MuZero search with small networks, as an agent runs it at each move."""

import jax
import jax.numpy as jnp
import mctx

ACTIONS, EMBEDDING = 4, 8


def params():
    keys = jax.random.split(jax.random.PRNGKey(0), 5)
    return {
        "encode": jax.random.normal(keys[0], (6, EMBEDDING)),
        "policy": jax.random.normal(keys[1], (EMBEDDING, ACTIONS)),
        "value": jax.random.normal(keys[2], (EMBEDDING,)),
        "next": jax.random.normal(keys[3], (EMBEDDING + ACTIONS, EMBEDDING)),
        "reward": jax.random.normal(keys[4], (EMBEDDING + ACTIONS,)),
    }


def predict(params, embedding):
    return embedding @ params["policy"], jnp.tanh(embedding @ params["value"])


def recurrent_fn(params, rng_key, action, embedding):
    del rng_key
    inputs = jnp.concatenate([embedding, jax.nn.one_hot(action, ACTIONS)], axis=-1)
    embedding = jnp.tanh(inputs @ params["next"])
    logits, value = predict(params, embedding)
    output = mctx.RecurrentFnOutput(
        reward=jnp.tanh(inputs @ params["reward"]),
        discount=jnp.full_like(value, 0.97),
        prior_logits=logits,
        value=value,
    )
    return output, embedding


def plan(params, key, observation, invalid_actions):
    embedding = jnp.tanh(observation @ params["encode"])
    logits, value = predict(params, embedding)
    root = mctx.RootFnOutput(prior_logits=logits, value=value, embedding=embedding)
    output = mctx.gumbel_muzero_policy(
        params,
        key,
        root,
        recurrent_fn,
        num_simulations=8,
        invalid_actions=invalid_actions,
        max_num_considered_actions=4,
    )
    return output.action, output.action_weights, output.search_tree.summary()


def search(params, key, observation):
    """Return all that the policy knows: the action, its weights and the search tree."""
    embedding = jnp.tanh(observation @ params["encode"])
    logits, value = predict(params, embedding)
    root = mctx.RootFnOutput(prior_logits=logits, value=value, embedding=embedding)
    return mctx.muzero_policy(params, key, root, recurrent_fn, num_simulations=6)
