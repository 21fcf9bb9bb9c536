"""A small chat model: 8 unrolled layers, d=256, 8 heads, with a cache of keys and values.

`prefill` reads a prompt into an empty cache, `decode` adds one token. Normalization before each
block, GELU by tanh, rotary positions; pure JAX.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

LAYERS, WIDTH, HEADS, VOCABULARY, LONGEST = 8, 256, 8, 2048, 512

Tree = dict[str, Any]


def weights() -> Tree:
    """Return the avals of the weights, as `jax.eval_shape` makes them of `initialize`."""
    avals: Tree = jax.eval_shape(initialize)
    return avals


def cache(batch: int) -> Tree:
    """Return the avals of an empty cache."""
    shape = (batch, HEADS, LONGEST, WIDTH // HEADS)
    aval = jax.ShapeDtypeStruct(shape, jnp.float32)
    return {f"layer{layer}": {"keys": aval, "values": aval} for layer in range(LAYERS)}


def initialize() -> Tree:
    """Return random weights."""
    key = jax.random.key(0)

    def matrix(rows: int, columns: int) -> jax.Array:
        drawn: jax.Array = jax.random.normal(key, (rows, columns)) / math.sqrt(rows)
        return drawn

    made: Tree = {"embedding": matrix(VOCABULARY, WIDTH)}
    for layer in range(LAYERS):
        made[f"layer{layer}"] = {
            "qkv": matrix(WIDTH, 3 * WIDTH),
            "out": matrix(WIDTH, WIDTH),
            "up": matrix(WIDTH, 4 * WIDTH),
            "down": matrix(4 * WIDTH, WIDTH),
            "scales": jnp.ones((2, WIDTH)),
        }
    return made


def prefill(weights: Tree, tokens: jax.Array) -> tuple[jax.Array, Tree]:
    """Return the logits of the next token, f32[batch, 2048], and the cache: i32[batch, seq] in."""
    empty = jax.tree.map(lambda aval: jnp.zeros(aval.shape, aval.dtype), cache(tokens.shape[0]))
    return _run(weights, empty, tokens, jnp.int32(0))


def decode(
    weights: Tree, cache: Tree, token: jax.Array, position: jax.Array
) -> tuple[jax.Array, Tree]:
    """Return the logits of the next token and the longer cache: i32[batch], i32[] in."""
    return _run(weights, cache, token[:, None], position)


def _run(weights: Tree, cache: Tree, tokens: jax.Array, start: jax.Array) -> tuple[jax.Array, Tree]:
    x, filled = weights["embedding"][tokens], {}
    for name in cache:
        layer = weights[name]
        mixed, filled[name] = _attend(layer, cache[name], _normalize(layer["scales"][0], x), start)
        x = x + mixed
        hidden = jax.nn.gelu(_normalize(layer["scales"][1], x) @ layer["up"], approximate=True)
        x = x + hidden @ layer["down"]
    logits: jax.Array = x[:, -1] @ weights["embedding"].T
    return logits, filled


def _attend(layer: Tree, cache: Tree, x: jax.Array, start: jax.Array) -> tuple[jax.Array, Tree]:
    batch, length, _ = x.shape
    joined = (x @ layer["qkv"]).reshape(batch, length, 3, HEADS, WIDTH // HEADS)
    query, key, value = (joined[:, :, index].transpose(0, 2, 1, 3) for index in range(3))
    positions = start + jnp.arange(length)
    keys, values = (
        jax.lax.dynamic_update_slice(old, new, (0, 0, start, 0))
        for old, new in ((cache["keys"], _rotate(key, positions)), (cache["values"], value))
    )
    scores = _rotate(query, positions) @ keys.transpose(0, 1, 3, 2) / math.sqrt(WIDTH // HEADS)
    seen = jnp.arange(LONGEST)[None, :] <= positions[:, None]
    mixed = jax.nn.softmax(jnp.where(seen, scores, -1e9), axis=-1) @ values
    joined = mixed.transpose(0, 2, 1, 3).reshape(batch, length, WIDTH)
    return joined @ layer["out"], {"keys": keys, "values": values}


def _rotate(x: jax.Array, positions: jax.Array) -> jax.Array:
    half = x.shape[-1] // 2
    angles = positions[:, None] / 10_000 ** (jnp.arange(half) / half)
    first, second = x[..., :half], x[..., half:]
    sine, cosine = jnp.sin(angles), jnp.cos(angles)
    turned = [first * cosine - second * sine, first * sine + second * cosine]
    rotated: jax.Array = jnp.concatenate(turned, -1)
    return rotated


def _normalize(scale: jax.Array, x: jax.Array) -> jax.Array:
    scaled: jax.Array = scale * x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5)
    return scaled
