"""A causal transformer: 12 layers, d=256, 8 heads, 64 tokens; pure JAX, unrolled.

Normalization before each block, GELU by tanh, epsilon 1e-5, logits by the embedding's transpose.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

_LAYERS, _HEADS, _EPSILON = 12, 8, 1e-5

Weights = Mapping[str, jax.Array]


def apply(weights: Weights, tokens: jax.Array) -> jax.Array:
    """Return the logits of each next token: i32[batch, 64] to f32[batch, 64, 2048]."""
    x = weights["embedding"][tokens] + weights["positions"]
    for layer in range(_LAYERS):
        prefix = f"layer{layer}."
        x = x + _attend(weights, prefix, _normalize(weights, f"{prefix}norm1", x))
        x = x + _feed_forward(weights, prefix, _normalize(weights, f"{prefix}norm2", x))
    return _normalize(weights, "norm", x) @ weights["embedding"].T


def apply_scanned(weights: Weights, tokens: jax.Array) -> jax.Array:
    """Return the same from one layer's code, run for each layer by `jax.lax.scan`.

    The weights are constants: they are stacked while this is traced.
    """
    stacked = {
        name.removeprefix("layer0."): np.stack(
            [weights[name.replace("layer0.", f"layer{layer}.")] for layer in range(_LAYERS)]
        )
        for name in weights
        if name.startswith("layer0.")
    }

    def step(x: jax.Array, layer: Weights) -> tuple[jax.Array, None]:
        x = x + _attend(layer, "", _normalize(layer, "norm1", x))
        return x + _feed_forward(layer, "", _normalize(layer, "norm2", x)), None

    x, _ = jax.lax.scan(step, weights["embedding"][tokens] + weights["positions"], stacked)
    return _normalize(weights, "norm", x) @ weights["embedding"].T


def _attend(weights: Weights, prefix: str, x: jax.Array) -> jax.Array:
    batch, length, width = x.shape
    joined = _dense(weights, f"{prefix}qkv", x).reshape(batch, length, 3, _HEADS, width // _HEADS)
    query, key, value = (joined[:, :, index].transpose(0, 2, 1, 3) for index in range(3))
    scores = query @ key.transpose(0, 1, 3, 2) / math.sqrt(width // _HEADS)
    seen = jnp.tril(jnp.ones((length, length), bool))
    mixed = jax.nn.softmax(jnp.where(seen, scores, -1e9), axis=-1) @ value
    return _dense(weights, f"{prefix}project", mixed.transpose(0, 2, 1, 3).reshape(x.shape))


def _feed_forward(weights: Weights, prefix: str, x: jax.Array) -> jax.Array:
    hidden = jax.nn.gelu(_dense(weights, f"{prefix}up", x), approximate=True)
    return _dense(weights, f"{prefix}down", hidden)


def _normalize(weights: Weights, name: str, x: jax.Array) -> jax.Array:
    centered = x - x.mean(axis=-1, keepdims=True)
    variance = (centered * centered).mean(axis=-1, keepdims=True)
    scaled: jax.Array = centered / jnp.sqrt(variance + _EPSILON)
    return scaled * weights[f"{name}.scale"] + weights[f"{name}.bias"]


def _dense(weights: Weights, name: str, x: jax.Array) -> jax.Array:
    return x @ weights[f"{name}.kernel"] + weights[f"{name}.bias"]
