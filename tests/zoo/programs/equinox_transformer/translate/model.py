"""An equinox encoder with attention, dropout and batch norm's state, trained with optax."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax


class Block(eqx.Module):
    attention: eqx.nn.MultiheadAttention
    mlp: eqx.nn.MLP
    norm1: eqx.nn.LayerNorm
    norm2: eqx.nn.LayerNorm
    dropout: eqx.nn.Dropout

    def __init__(self, width, *, key):
        key1, key2 = jr.split(key)
        self.attention = eqx.nn.MultiheadAttention(4, width, dropout_p=0.1, key=key1)
        self.mlp = eqx.nn.MLP(width, width, 2 * width, 1, activation=jax.nn.gelu, key=key2)
        self.norm1 = eqx.nn.LayerNorm(width)
        self.norm2 = eqx.nn.LayerNorm(width)
        self.dropout = eqx.nn.Dropout(0.1)

    def __call__(self, x, *, key):
        key1, key2 = jr.split(key)
        y = jax.vmap(self.norm1)(x)
        x = x + self.attention(y, y, y, key=key1)
        return x + self.dropout(jax.vmap(self.mlp)(jax.vmap(self.norm2)(x)), key=key2)


class Classifier(eqx.Module):
    embedding: eqx.nn.Embedding
    blocks: list[Block]
    norm: eqx.nn.BatchNorm
    head: eqx.nn.Linear
    activation: Callable

    def __init__(self, key):
        key1, key2, *keys = jr.split(key, 4)
        self.embedding = eqx.nn.Embedding(64, 32, key=key1)
        self.blocks = [Block(32, key=key) for key in keys]
        self.norm = eqx.nn.BatchNorm(32, axis_name="batch", mode="batch")
        self.head = eqx.nn.Linear(32, 4, key=key2)
        self.activation = jnp.tanh

    def __call__(self, tokens, state, *, key):
        x = jax.vmap(self.embedding)(tokens)
        for block, block_key in zip(self.blocks, jr.split(key, 2), strict=True):
            x = block(x, key=block_key)
        x, state = self.norm(x.mean(axis=0), state)
        return self.head(self.activation(x)), state


optimizer = optax.adamw(optax.exponential_decay(1e-3, 100, 0.9))


def make():
    return eqx.nn.make_with_state(Classifier)(jr.key(0))


def make_model():
    return make()[0]


def make_state():
    return make()[1]


def make_opt_state():
    return optimizer.init(eqx.filter(make_model(), eqx.is_inexact_array))


def compute_loss(model, state, tokens, labels, key):
    keys = jr.split(key, tokens.shape[0])
    logits, state = jax.vmap(
        lambda t, k: model(t, state, key=k), axis_name="batch", out_axes=(0, None)
    )(tokens, keys)
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean(), state


@eqx.filter_jit
def make_step(model, state, opt_state, tokens, labels, key):
    grad_fn = eqx.filter_value_and_grad(compute_loss, has_aux=True)
    (loss, state), grads = grad_fn(model, state, tokens, labels, key)
    updates, opt_state = optimizer.update(grads, opt_state, eqx.filter(model, eqx.is_inexact_array))
    return eqx.apply_updates(model, updates), state, opt_state, loss


def predict(model, state, tokens):
    model = eqx.nn.inference_mode(model)
    logits, _ = jax.vmap(
        lambda t: model(t, state, key=jr.key(0)), out_axes=(0, None), axis_name="batch"
    )(tokens)
    return jax.nn.softmax(logits)
