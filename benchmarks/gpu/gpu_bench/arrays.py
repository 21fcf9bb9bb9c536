"""Linear algebra, transforms, orders, indexing, random numbers, reductions, loops and kernels."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.experimental import pallas as pl
from jax.experimental import sparse
from jax.scipy.linalg import solve_triangular


def eigh(x: Array) -> tuple[Array, Array]:
    values, vectors = jnp.linalg.eigh(x)
    return values, vectors


def cholesky(x: Array) -> Array:
    return jnp.linalg.cholesky(x)


def svd(x: Array) -> tuple[Array, Array, Array]:
    u, s, vt = jnp.linalg.svd(x, full_matrices=False)
    return u, s, vt


def qr(x: Array) -> tuple[Array, Array]:
    q, r = jnp.linalg.qr(x)
    return q, r


def solve(a: Array, b: Array) -> Array:
    return jnp.linalg.solve(a, b)


def triangular_solve(a: Array, b: Array) -> Array:
    return solve_triangular(a, b, lower=True)


def tridiagonal_solve(lower: Array, diagonal: Array, upper: Array, b: Array) -> Array:
    return lax.linalg.tridiagonal_solve(lower, diagonal, upper, b)


def sparse_matmul(data: Array, indices: Array, x: Array) -> Array:
    """Multiply a sparse square matrix, given by its values and their places, with a dense one."""
    rows = x.shape[0]
    return sparse.BCOO((data, indices), shape=(rows, rows)) @ x


def rfft(x: Array) -> Array:
    return jnp.fft.rfft(x)


def fft2(x: Array) -> Array:
    return jnp.fft.fft2(x)


def sort(x: Array) -> Array:
    return jnp.sort(x)


def argsort(x: Array) -> Array:
    return jnp.argsort(x)


def top_k(x: Array) -> tuple[Array, Array]:
    values, places = lax.top_k(x, 64)
    return values, places


def cumsum(x: Array) -> Array:
    return jnp.cumsum(x, axis=-1)


def scatter_add(x: Array, places: Array, updates: Array) -> Array:
    return x.at[places].add(updates)


def gather(x: Array, places: Array) -> Array:
    return x[places]


def segment_sum(x: Array, segments: Array) -> Array:
    return jax.ops.segment_sum(x, segments, num_segments=1024)


def normal(key: Array) -> Array:
    return jax.random.normal(jax.random.wrap_key_data(key, impl="threefry2x32"), (1 << 20,))


def gumbel(key: Array, logits: Array) -> Array:
    """Add Gumbel noise to logits, as sampling a token does."""
    key = jax.random.wrap_key_data(key, impl="threefry2x32")
    return logits + jax.random.gumbel(key, logits.shape)


def layernorm(x: Array, scale: Array, bias: Array) -> Array:
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-6) * scale + bias


def softmax(x: Array) -> Array:
    return jax.nn.softmax(x)


def while_loop(x: Array) -> Array:
    """Apply a map 200 times."""

    def step(state: tuple[Array, Array]) -> tuple[Array, Array]:
        x, count = state
        return jnp.sin(x) + 0.5 * x, count + 1

    return lax.while_loop(lambda state: state[1] < 200, step, (x, jnp.int32(0)))[0]


def softmax_triton(x: Array) -> Array:
    """Return softmax, of four rows in each block of a Triton kernel."""
    # For NVIDIA GPUs only, and not in every jaxlib.
    from jax.experimental.pallas import triton

    def kernel(x_ref: Array, out_ref: Array) -> None:
        shifted = jnp.exp(x_ref[...] - x_ref[...].max(-1, keepdims=True))
        out_ref[...] = shifted / shifted.sum(-1, keepdims=True)

    block = pl.BlockSpec((4, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(x.shape[0] // 4,),
        in_specs=[block],
        out_specs=block,
        compiler_params=triton.CompilerParams(num_warps=4),
    )(x)


def add_mosaic(x: Array, y: Array) -> Array:
    """Return a sum, of 64 rows in each block of a Mosaic GPU kernel."""
    # For NVIDIA GPUs only, and not in every jaxlib.
    from jax.experimental.pallas import mosaic_gpu

    def kernel(x_ref: Array, y_ref: Array, out_ref: Array) -> None:
        rows = pl.ds(lax.axis_index("block") * 64, 64)
        out_ref[rows, :] = x_ref[rows, :] + y_ref[rows, :]

    return mosaic_gpu.kernel(
        kernel,
        out_type=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(x.shape[0] // 64,),
        grid_names=("block",),
    )(x, y)
