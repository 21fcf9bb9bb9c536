"""Linear algebra, loops, random numbers, dtypes, donation, constants."""

from __future__ import annotations

import jax
import jax.numpy as jnp

TABLE = jnp.arange(4096, dtype=jnp.float32).reshape(64, 64) / 4096


def linalg(a):
    a = a @ a.T + 10 * jnp.eye(a.shape[0])
    q, r = jnp.linalg.qr(a)
    _, s, _ = jnp.linalg.svd(a)
    return {
        "eigh": jnp.linalg.eigh(a)[0],
        "qr": q @ r,
        "svd": s,
        "solve": jnp.linalg.solve(a, a[0]),
        "cholesky": jnp.linalg.cholesky(a),
    }


def loops(x, *, n):
    x = jax.lax.while_loop(lambda c: c.sum() < 100, lambda c: c * 2, x)
    total, parts = jax.lax.scan(lambda c, y: (c + y, c * y), jnp.float32(0), x)
    return jax.lax.fori_loop(0, n, lambda i, c: c + i, total), parts


def random(key, loc):
    first, second = jax.random.split(key)
    return jax.random.normal(first, (3,)) + loc, second


def small_floats(a, b, c):
    return (a * 2, b.astype(jnp.float32) * 2, c + c)


def cache_like(batch):
    return {"k": jnp.zeros((batch, 8, 4)), "length": jnp.int32(0)}


def cache_write(cache, token):
    k = cache["k"].at[:, cache["length"]].set(token)
    return {"k": k, "length": cache["length"] + 1}


@jax.jit
def _lookup(x):
    return x @ TABLE


def with_table(x):
    return _lookup(x).sum(axis=1)


def wide(x):
    return x * 2.0


def weak(x, scale):
    return x * scale


def positions(causal, x, mask=None, *, scale):
    y = x * scale
    return (y if causal else -y), None, [y.sum(), ()]


def matmul(x, w):
    return {"y": x @ w, "sum": x.sum()}
