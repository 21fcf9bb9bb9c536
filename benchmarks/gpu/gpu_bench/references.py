"""Right results by numpy in float64, and what is compared of results that are not unique."""

from __future__ import annotations

from typing import Any

import numpy as np


def matmul(a: Any, b: Any) -> Any:
    """Return the product; that of integers is exact, because it stays below 2**53."""
    if np.issubdtype(a.dtype, np.integer):
        return (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64)
    return a @ b


def matmul_gelu(x: Any, w: Any, bias: Any) -> Any:
    x = x @ w + bias
    return x / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3)))


def matmul_int8_weights(x: Any, w: Any, scale: Any) -> Any:
    return (x @ w) * scale


def ragged(x: Any, w: Any, sizes: Any) -> Any:
    groups = np.split(x, np.cumsum(sizes)[:-1])
    return np.concatenate([rows @ matrix for rows, matrix in zip(groups, w, strict=True)])


def attention(q: Any, k: Any, v: Any) -> Any:
    length = q.shape[1]
    return _attend(q, k, v, np.tri(length, dtype=bool))


def attention_decode(q: Any, k: Any, v: Any, length: Any) -> Any:
    heads = q.shape[2] // k.shape[2]
    seen = np.arange(k.shape[1]) < length
    return _attend(q, k.repeat(heads, 2), v.repeat(heads, 2), seen)


def _attend(q: Any, k: Any, v: Any, seen: Any) -> Any:
    q, k, v = (x.transpose(0, 2, 1, 3) for x in (q, k, v))
    scores = q @ k.swapaxes(2, 3) / q.shape[-1] ** 0.5
    return (softmax(np.where(seen, scores, -np.inf)) @ v).transpose(0, 2, 1, 3)


def eigh(x: Any) -> Any:
    return np.linalg.eigvalsh(x), x


def seen_eigh(results: Any) -> Any:
    values, vectors = results
    return values, (vectors * values) @ vectors.T


def svd(x: Any) -> Any:
    return np.linalg.svd(x, compute_uv=False), x


def seen_svd(results: Any) -> Any:
    u, s, vt = results
    return s, (u * s) @ vt


def qr(x: Any) -> Any:
    return x, np.eye(x.shape[1])


def seen_qr(results: Any) -> Any:
    q, r = results
    return q @ r, q.T @ q


def tridiagonal_solve(lower: Any, diagonal: Any, upper: Any, b: Any) -> Any:
    matrix = np.diag(diagonal) + np.diag(lower[1:], -1) + np.diag(upper[:-1], 1)
    return np.linalg.solve(matrix, b)


def sparse_matmul(data: Any, indices: Any, x: Any) -> Any:
    return scatter_add(np.zeros_like(x), indices[:, 0], data[:, None] * x[indices[:, 1]])


def top_k(x: Any) -> Any:
    places = np.argsort(-x, axis=-1, stable=True)[:, :64]
    return np.take_along_axis(x, places, axis=-1), places


def scatter_add(x: Any, places: Any, updates: Any) -> Any:
    result = x.copy()
    np.add.at(result, places, updates)
    return result


def layernorm(x: Any, scale: Any, bias: Any) -> Any:
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-6) * scale + bias


def softmax(x: Any) -> Any:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def while_loop(x: Any) -> Any:
    for _ in range(200):
        x = np.sin(x) + 0.5 * x
    return x
