"""The programs whose instructions were measured on an H100: a decoder, convolutions, a matmul.

XLA finds a result by the instruction, so each operation here is part of the key. The files beside
this one are what XLA wrote on an NVIDIA H100 80GB HBM3 with cuDNN 9.19.0, on 2026-11-28.
"""

import jax
import jax.numpy as jnp
from jax import lax

WIDTH, HEADS, LAYERS, WORDS, LENGTH = 1024, 16, 12, 32000, 1024
HEAD = WIDTH // HEADS
BF16 = jnp.bfloat16


def weights():
    shapes = {
        "down": (LAYERS, 4 * WIDTH, WIDTH),
        "emb": (WORDS, WIDTH),
        "n1": (LAYERS, WIDTH),
        "n2": (LAYERS, WIDTH),
        "o": (LAYERS, WIDTH, WIDTH),
        "qkv": (LAYERS, WIDTH, 3 * WIDTH),
        "up": (LAYERS, WIDTH, 4 * WIDTH),
    }
    return {name: jnp.zeros(shape, BF16) for name, shape in shapes.items()}


def cache():
    return {name: jnp.zeros((LAYERS, 1, LENGTH, HEADS, HEAD), BF16) for name in ("k", "v")}


def _normed(x, gain):
    wide = x.astype(jnp.float32)
    mean = jnp.mean(wide * wide, -1, keepdims=True)
    return (wide * lax.rsqrt(mean + 1e-6)).astype(x.dtype) * gain


def _heads(x, weights):
    return [part.reshape(*part.shape[:-1], HEADS, HEAD) for part in jnp.split(x @ weights, 3, -1)]


def _finish(x, attended, layer):
    x = x + attended.reshape(x.shape) @ layer["o"]
    return x + jax.nn.gelu(_normed(x, layer["n2"]) @ layer["up"]) @ layer["down"]


def _layers(weights):
    return {name: value for name, value in weights.items() if name != "emb"}


def prefill(weights, tokens):
    def step(x, layer):
        q, k, v = _heads(_normed(x, layer["n1"]), layer["qkv"])
        return _finish(x, jax.nn.dot_product_attention(q, k, v, is_causal=True), layer), (k, v)

    x, (k, v) = lax.scan(step, weights["emb"][tokens], _layers(weights))
    return (x[:, -1] @ weights["emb"].T).astype(jnp.float32), {"k": k, "v": v}


def decode(weights, cache, token, position):
    def step(x, layer_and_cache):
        layer, keys, values = layer_and_cache
        q, k, v = _heads(_normed(x, layer["n1"]), layer["qkv"])
        at = (0, position, 0, 0)
        keys, values = (lax.dynamic_update_slice(*pair, at) for pair in ((keys, k), (values, v)))
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, keys).astype(jnp.float32) / HEAD**0.5
        scores = jnp.where(jnp.arange(LENGTH) <= position, scores, -1e30)
        shares = jax.nn.softmax(scores).astype(values.dtype)
        return _finish(x, jnp.einsum("bhqk,bkhd->bqhd", shares, values), layer), (keys, values)

    x = weights["emb"][token][:, None]
    x, (keys, values) = lax.scan(step, x, (_layers(weights), cache["k"], cache["v"]))
    scores = (x[:, 0] @ weights["emb"].T).astype(jnp.float32)
    return jnp.argmax(scores, -1).astype(jnp.int32), {"k": keys, "v": values}


def convnet(x, filters):
    for each in filters:
        sizes = ("NHWC", "HWIO", "NHWC")
        x = jax.nn.relu(lax.conv_general_dilated(x, each, (1, 1), "SAME", dimension_numbers=sizes))
    return x.mean((1, 2))


def matmul(a, b):
    return a @ b


def order(x):
    return jnp.sort(x)
