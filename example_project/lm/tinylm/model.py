"""The model as one writes it: plain JAX, its layers in a Python loop.

`prefill` reads the prompt up to its last token, `decode` takes one token and gives the next. Both
compute in f32. Arrays of a cache are f32[layer, batch, position, head, number]; no token sees the
positions behind its own.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp

from tinylm.sizes import CONTEXT, HEAD, HEADS, KV_HEADS, LAYERS

Params: TypeAlias = Mapping[str, Any]  # as `tinylm.weights.shapes` names them
Cache: TypeAlias = dict[str, jax.Array]


def prefill(params: Params, tokens: jax.Array) -> Cache:
    """Return a cache that begins with the keys and values of i32[batch, length] tokens."""
    positions = jnp.arange(tokens.shape[1])
    mask = positions[:, None] >= positions
    x = params["embed"][tokens]
    keys, values = [], []
    for layer in params["layers"]:
        query, key, value = _project(layer, x, positions)
        x = _feed_forward(layer, x + _attend(layer, query, key, value, mask))
        keys.append(key)
        values.append(value)
    room = [(0, 0), (0, 0), (0, CONTEXT - len(positions)), (0, 0), (0, 0)]
    return {"keys": jnp.pad(jnp.stack(keys), room), "values": jnp.pad(jnp.stack(values), room)}


def decode(
    params: Params, cache: Cache, token: jax.Array, position: jax.Array
) -> tuple[jax.Array, Cache]:
    """Put i32[batch] tokens at one position; return the next one's scores and the cache."""
    mask = jnp.arange(CONTEXT)[None] <= position
    x = params["embed"][token][:, None]
    keys, values = cache["keys"], cache["values"]
    for number, layer in enumerate(params["layers"]):
        query, key, value = _project(layer, x, position[None])
        place = (number, 0, position, 0, 0)
        keys = jax.lax.dynamic_update_slice(keys, key[None], place)
        values = jax.lax.dynamic_update_slice(values, value[None], place)
        x = _feed_forward(layer, x + _attend(layer, query, keys[number], values[number], mask))
    scores = _norm(params["norm"], x[:, 0]) @ params["embed"].T
    return scores, {"keys": keys, "values": values}


def empty_cache(batch: int) -> Cache:
    """Return a cache of CONTEXT positions: its shapes are what the manifest reads."""
    shape = (LAYERS, batch, CONTEXT, KV_HEADS, HEAD)
    return {"keys": jnp.zeros(shape), "values": jnp.zeros(shape)}


def _project(layer: Params, x: jax.Array, positions: jax.Array) -> tuple[jax.Array, ...]:
    x = _norm(layer["norm_attention"], x)
    query, key, value = (
        (x @ layer[name]).reshape(*x.shape[:2], -1, HEAD) for name in ("query", "key", "value")
    )
    return _rotate(query, positions), _rotate(key, positions), value


def _rotate(x: jax.Array, positions: jax.Array) -> jax.Array:
    """Turn pairs of numbers by their position (Su et al., https://arxiv.org/abs/2104.09864)."""
    frequencies = 10000.0 ** (-jnp.arange(0, HEAD, 2) / HEAD)
    angles = positions[:, None, None] * frequencies
    cos, sin = jnp.cos(angles), jnp.sin(angles)
    left, right = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([left * cos - right * sin, right * cos + left * sin], axis=-1)


def _attend(
    layer: Params, query: jax.Array, key: jax.Array, value: jax.Array, mask: jax.Array
) -> jax.Array:
    key, value = (jnp.repeat(x, HEADS // KV_HEADS, axis=2) for x in (key, value))
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) / HEAD**0.5
    weights = jax.nn.softmax(jnp.where(mask, scores, -jnp.inf))
    mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, value)
    return mixed.reshape(*mixed.shape[:2], -1) @ layer["output"]


def _feed_forward(layer: Params, x: jax.Array) -> jax.Array:
    y = _norm(layer["norm_hidden"], x)
    return x + (jax.nn.silu(y @ layer["gate"]) * (y @ layer["up"])) @ layer["down"]


def _norm(scale: jax.Array, x: jax.Array) -> jax.Array:
    return x * jax.lax.rsqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5) * scale
