"""A language model of dm-haiku: embedding, LSTM and dropout; one train step, and sampling."""

from typing import NamedTuple

import haiku as hk
import jax
import jax.numpy as jnp
import optax

VOCABULARY, WIDTH = 48, 32


class TrainingState(NamedTuple):
    params: hk.Params
    opt_state: optax.OptState
    rng: jax.Array


def make_core():
    return hk.DeepRNN(
        [
            hk.Embed(VOCABULARY, WIDTH),
            hk.LSTM(WIDTH),
            jax.nn.relu,
            hk.LSTM(WIDTH),
            hk.Linear(VOCABULARY),
        ]
    )


def unrolled(tokens, is_training):
    core = make_core()
    logits, _ = hk.dynamic_unroll(core, tokens, core.initial_state(tokens.shape[1]))
    return hk.dropout(hk.next_rng_key(), 0.1, logits) if is_training else logits


def sample_fn(first, length):
    core = make_core()
    state = core.initial_state(first.shape[0])

    def body(carry, key):
        token, state = carry
        logits, state = core(token, state)
        token = jax.random.categorical(key, logits)
        return (token, state), token

    keys = hk.next_rng_keys(length)
    return hk.scan(body, (first, state), keys)[1]


model = hk.transform(unrolled)
sampler = hk.transform(sample_fn)
optimizer = optax.rmsprop(optax.linear_schedule(1e-2, 1e-4, 100))


def initial_state():
    rng, init_rng = jax.random.split(jax.random.PRNGKey(0))
    params = model.init(init_rng, jnp.zeros((4, 1), jnp.int32), is_training=True)
    return TrainingState(params, optimizer.init(params), rng)


def initial_params():
    return initial_state().params


def update(state, tokens):
    rng, rng_step = jax.random.split(state.rng)

    def loss_fn(params):
        logits = model.apply(params, rng_step, tokens[:-1], is_training=True)
        loss = optax.softmax_cross_entropy_with_integer_labels(logits, tokens[1:])
        return loss.mean()

    loss, grads = jax.value_and_grad(loss_fn)(state.params)
    updates, opt_state = optimizer.update(grads, state.opt_state)
    return TrainingState(optax.apply_updates(state.params, updates), opt_state, rng), loss


def sample(params, rng, first, length):
    return sampler.apply(params, rng, first, length)
