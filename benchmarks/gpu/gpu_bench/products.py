"""Matrix products and attention."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax


def matmul(a: Array, b: Array) -> Array:
    return a @ b


def matmul_highest(a: Array, b: Array) -> Array:
    return jnp.matmul(a, b, precision=lax.Precision.HIGHEST)


def matmul_f8(a: Array, b: Array) -> Array:
    return jnp.matmul(a, b, preferred_element_type=jnp.float32)


def matmul_int8(a: Array, b: Array) -> Array:
    return jnp.matmul(a, b, preferred_element_type=jnp.int32)


def matmul_gelu(x: Array, w: Array, bias: Array) -> Array:
    return jax.nn.gelu(x @ w + bias)


def matmul_int8_weights(x: Array, w: Array, scale: Array) -> Array:
    """Multiply activations with int8 weights, which have a scale for each column."""
    return (x @ w.astype(x.dtype)) * scale


def experts(x: Array, w: Array) -> Array:
    """Send the rows of each expert through its own weights."""
    return jnp.einsum("eck,ekn->ecn", x, w)


def ragged(x: Array, w: Array, sizes: Array) -> Array:
    """Multiply groups of rows, of `sizes`, with one matrix each."""
    return lax.ragged_dot(x, w, sizes)


def attention(q: Array, k: Array, v: Array) -> Array:
    return jax.nn.dot_product_attention(q, k, v, is_causal=True)


def attention_decode(q: Array, k: Array, v: Array, length: Array) -> Array:
    """Attend from one query to the first `length` positions of a cache.

    Several heads of `q` share one head of `k` and `v` where these have fewer.
    """
    seen = jnp.arange(k.shape[1]) < length
    return jax.nn.dot_product_attention(q, k, v, mask=seen[None, None, None, :])
