"""A language model of decoder layers: prefill, one step of decoding, one step of training.

The parameters are one dict. Those of the layers are stacked along their first axis.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

HEAD = 64
LEARNING_RATE = 0.1
_LAYER = ("attn_norm", "qkv", "attn_out", "mlp_norm", "up", "down")

Tree = dict[str, Any]


def prefill(params: Tree, tokens: Array) -> tuple[Array, Tree]:
    """Return the logits of the next token, and keys and values of all positions."""
    x, (keys, values) = lax.scan(_layer, params["embed"][tokens], _layers(params))
    return _logits(params, x[:, -1]), {"k": keys, "v": values}


def decode(params: Tree, cache: Tree, token: Array, position: Array) -> tuple[Array, Tree]:
    """Return the logits after one more token, and the cache with it."""

    def layer(x: Array, of: tuple[Tree, Array, Array]) -> tuple[Array, tuple[Array, Array]]:
        weights, keys, values = of
        q, k, v = _qkv(x, weights)
        keys = lax.dynamic_update_slice_in_dim(keys, k, position, axis=1)
        values = lax.dynamic_update_slice_in_dim(values, v, position, axis=1)
        scores = jnp.einsum("bqhd,bthd->bhqt", q, keys, preferred_element_type=jnp.float32)
        seen = jnp.arange(keys.shape[1]) <= position
        weight = jax.nn.softmax(jnp.where(seen, scores / HEAD**0.5, -jnp.inf))
        mixed = jnp.einsum("bhqt,bthd->bqhd", weight.astype(x.dtype), values)
        return _mlp(x + mixed.reshape(x.shape) @ weights["attn_out"], weights), (keys, values)

    x = params["embed"][token][:, None]
    x, (keys, values) = lax.scan(layer, x, (_layers(params), cache["k"], cache["v"]))
    return _logits(params, x[:, 0]), {"k": keys, "v": values}


def train(params: Tree, tokens: Array) -> tuple[Tree, Array, Array]:
    """Return parameters after a step of SGD, the loss, and the norm of the gradient."""
    loss, gradient = jax.value_and_grad(_loss)(params, tokens)
    squares = [jnp.sum(g.astype(jnp.float32) ** 2) for g in jax.tree.leaves(gradient)]
    stepped = jax.tree.map(lambda p, g: p - LEARNING_RATE * g, params, gradient)
    return stepped, loss, jnp.sqrt(sum(squares, jnp.float32(0)))


def _loss(params: Tree, tokens: Array) -> Array:
    x, _ = lax.scan(jax.checkpoint(_layer), params["embed"][tokens[:, :-1]], _layers(params))
    chances = jax.nn.log_softmax(_logits(params, x))
    return -jnp.take_along_axis(chances, tokens[:, 1:, None], axis=-1).mean()


def _layer(x: Array, weights: Tree) -> tuple[Array, tuple[Array, Array]]:
    q, k, v = _qkv(x, weights)
    mixed = jax.nn.dot_product_attention(q, k, v, is_causal=True)
    return _mlp(x + mixed.reshape(x.shape) @ weights["attn_out"], weights), (k, v)


def _qkv(x: Array, weights: Tree) -> list[Array]:
    projected = _norm(x, weights["attn_norm"]) @ weights["qkv"]
    return [part.reshape(*x.shape[:2], -1, HEAD) for part in jnp.split(projected, 3, axis=-1)]


def _mlp(x: Array, weights: Tree) -> Array:
    return x + jax.nn.gelu(_norm(x, weights["mlp_norm"]) @ weights["up"]) @ weights["down"]


def _norm(x: Array, scale: Array) -> Array:
    wide = x.astype(jnp.float32)
    wide *= lax.rsqrt(jnp.mean(wide**2, axis=-1, keepdims=True) + 1e-6)
    return wide.astype(x.dtype) * scale


def _logits(params: Tree, x: Array) -> Array:
    return jnp.matmul(x, params["embed"].T, preferred_element_type=jnp.float32)


def _layers(params: Tree) -> Tree:
    return {name: params[name] for name in _LAYER}
