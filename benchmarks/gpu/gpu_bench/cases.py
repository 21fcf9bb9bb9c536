"""What each function is called with, full and small, and which result is right.

Imports numpy alone, so that a process without jax can make arguments. The manifests say which
function a name is; a test compares their specs with those here.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np

from gpu_bench import references as right

# Arrays, and dicts and lists of them.
Tree = Any
Fill = Callable[[np.random.Generator, tuple[int, ...]], Any]

_DTYPES = {
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
    "f8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "c64": np.dtype(np.complex64),
    "i8": np.dtype(np.int8),
    "i32": np.dtype(np.int32),
    "u32": np.dtype(np.uint32),
}


@dataclass(frozen=True)
class Leaf:
    """One array to be made: its dtype as in a manifest, its shape, and what fills it."""

    dtype: str
    shape: tuple[int, ...]
    fill: Fill

    def __str__(self) -> str:
        """Return it as a manifest has it."""
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"

    def array(self, numbers: np.random.Generator) -> Any:
        """Return the array."""
        return np.asarray(self.fill(numbers, self.shape)).astype(_DTYPES[self.dtype])


@dataclass(frozen=True)
class Case:
    """One function: `make` returns its arguments, as leaves, for sizes.

    `reference` takes them as float64, complex128 and int64; without one, the function itself runs
    by jit on the CPU, with every float as float32. An error is the largest difference as a share of
    the largest number of the reference, at most `tolerance`; integers are compared exactly. `seen`
    turns results that are not unique, as eigenvectors, into some that are. `feed` returns the
    arguments of the next call, where this one used some up.
    """

    kind: str
    make: Callable[..., tuple[Tree, ...]]
    full: tuple[int, ...]
    small: tuple[int, ...]
    tolerance: float
    reference: Callable[..., Tree] | None = None
    seen: Callable[[Tree], Tree] = lambda results: results
    feed: Callable[[tuple[Any, ...], Any], tuple[Any, ...]] | None = None
    gpu_only: bool = False

    def leaves(self, *, small: bool) -> tuple[Tree, ...]:
        """Return what the arguments are made of."""
        return self.make(*(self.small if small else self.full))


def arguments(name: str, *, small: bool) -> tuple[Tree, ...]:
    """Return the arguments of a function: the same numbers in every process."""
    numbers = np.random.default_rng(zlib.crc32(name.encode()))
    leaves = CASES[name].leaves(small=small)
    return tuple(map_leaves(lambda leaf: leaf.array(numbers), leaf) for leaf in leaves)


def specs(name: str, *, small: bool) -> list[Tree]:
    """Return the specs of a function's arguments, as a manifest has them."""
    return [map_leaves(str, leaf) for leaf in CASES[name].leaves(small=small)]


def map_leaves(change: Callable[[Any], Any], tree: Tree) -> Tree:
    """Return a tree of dicts and sequences with changed leaves."""
    if isinstance(tree, dict):
        return {name: map_leaves(change, part) for name, part in tree.items()}
    if isinstance(tree, list | tuple):
        return [map_leaves(change, part) for part in tree]
    return change(tree)


def flat(tree: Tree) -> Iterator[Any]:
    """Yield the leaves of a tree, those of a dict by the order of its names."""
    if isinstance(tree, dict):
        tree = [tree[name] for name in sorted(tree)]
    if isinstance(tree, list | tuple):
        for part in tree:
            yield from flat(part)
    else:
        yield tree


# --- what fills an array ---


def normal(dtype: str, *shape: int, scale: float = 1.0) -> Leaf:
    return Leaf(dtype, shape, lambda numbers, shape: scale * _normal(numbers, shape))


def whole(dtype: str, low: int, high: int, *shape: int) -> Leaf:
    """Whole numbers from `low` up to and without `high`."""
    return Leaf(dtype, shape, lambda numbers, shape: numbers.integers(low, high, shape))


def constant(dtype: str, value: Any, *shape: int) -> Leaf:
    return Leaf(dtype, shape, lambda _, shape: np.broadcast_to(value, shape))


def square(n: int, change: Callable[[Any], Any]) -> Leaf:
    """A matrix with what an algorithm needs, made of a random one."""
    return Leaf("f32", (n, n), lambda numbers, shape: change(_normal(numbers, shape)))


def _normal(numbers: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return numbers.standard_normal(shape, np.float32)


def _complex(numbers: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return _normal(numbers, shape) + 1j * _normal(numbers, shape)


# --- arguments of several functions ---


def product(dtype: str) -> Callable[..., tuple[Tree, ...]]:
    """Return what makes two matrices of m by k and k by n."""
    if dtype.startswith("i"):
        return lambda m, k, n: (whole(dtype, -99, 99, m, k), whole(dtype, -99, 99, k, n))
    return lambda m, k, n: (normal(dtype, m, k), normal(dtype, k, n))


def _params(layers: int, width: int, words: int) -> Tree:
    def weights(*shape: int) -> Leaf:
        return normal("bf16", *shape, scale=0.02)

    return {
        "embed": weights(words, width),
        "attn_norm": constant("bf16", 1, layers, width),
        "qkv": weights(layers, width, 3 * width),
        "attn_out": weights(layers, width, width),
        "mlp_norm": constant("bf16", 1, layers, width),
        "up": weights(layers, width, 4 * width),
        "down": weights(layers, 4 * width, width),
    }


def _tokens(layers: int, width: int, words: int, batch: int, length: int) -> tuple[Tree, ...]:
    return _params(layers, width, words), whole("i32", 0, words, batch, length)


def _step(layers: int, width: int, words: int, length: int, position: int) -> tuple[Tree, ...]:
    past = normal("bf16", layers, 1, length, width // 64, 64)
    token = whole("i32", 0, words, 1)
    cache = {"k": past, "v": past}
    return _params(layers, width, words), cache, token, constant("i32", position)


def _one_query(batch: int, length: int, heads: int, shared: int) -> tuple[Tree, ...]:
    past = normal("bf16", batch, length, shared, 64)
    query = normal("bf16", batch, 1, heads, 64)
    return query, past, past, constant("i32", length - length // 8)


def _kernels(dtype: str, *channels: int) -> list[Leaf]:
    return [normal(dtype, 3, 3, a, b, scale=(9 * a) ** -0.5) for a, b in pairwise(channels)]


def _sparse(n: int, each: int, columns: int) -> tuple[Tree, ...]:
    stored = n * each
    return normal("f32", stored), whole("i32", 0, n, stored, 2), normal("f32", n, columns)


_DECODER, _SMALL_DECODER = (12, 1024, 32000), (2, 128, 256)
# Of the largest number: a rounding to bfloat16 or float16, of a sum of TF32 products, of float32.
_BF16, _F16, _TF32, _F32 = 1e-2, 2e-3, 2e-3, 2e-5

CASES = {
    "matmul_bf16": Case(
        "matmul", product("bf16"), (4096,) * 3, (64, 96, 32), _BF16, right.matmul
    ),
    "matmul_f16": Case("matmul", product("f16"), (4096,) * 3, (64, 96, 32), _F16, right.matmul),
    "matmul_f32": Case("matmul", product("f32"), (4096,) * 3, (64, 96, 32), _TF32, right.matmul),
    "matmul_f32_highest": Case(
        "matmul", product("f32"), (4096,) * 3, (64, 96, 32), _F32, right.matmul
    ),
    "matmul_f8": Case(
        "matmul", product("f8_e4m3fn"), (4096,) * 3, (64, 96, 32), _TF32, right.matmul
    ),
    "matmul_int8": Case("matmul", product("i8"), (4096,) * 3, (64, 96, 32), 0, right.matmul),
    "matmul_int32": Case("matmul", product("i32"), (1024,) * 3, (64, 96, 32), 0, right.matmul),
    "matmul_complex64": Case(
        "matmul",
        lambda n: (Leaf("c64", (n, n), _complex), Leaf("c64", (n, n), _complex)),
        (2048,), (32,), _TF32, right.matmul,
    ),
    "matmul_small": Case("matmul", product("bf16"), (128,) * 3, (32,) * 3, _BF16, right.matmul),
    "matmul_tall": Case(
        "matmul", product("bf16"), (65536, 64, 64), (256, 16, 16), _BF16, right.matmul
    ),
    "matvec": Case(
        "matmul", lambda n: (normal("bf16", n, n), normal("bf16", n)),
        (8192,), (64,), _BF16, right.matmul,
    ),
    "matmul_gelu": Case(
        "matmul",
        lambda m, k, n: (
            normal("bf16", m, k), normal("bf16", k, n, scale=k**-0.5), normal("bf16", n)
        ),
        (2048, 1024, 4096), (32, 16, 64), _BF16, right.matmul_gelu,
    ),
    "matmul_int8_weights": Case(
        "matmul",
        lambda m, k, n: (
            normal("bf16", m, k), whole("i8", -99, 99, k, n), normal("bf16", n, scale=0.01)
        ),
        (64, 4096, 4096), (8, 64, 32), _BF16, right.matmul_int8_weights,
    ),
    "batched_matmul": Case(
        "matmul", lambda b, n: (normal("bf16", b, n, n), normal("bf16", b, n, n)),
        (64, 512), (3, 32), _BF16, right.matmul,
    ),
    "experts": Case(
        "matmul", lambda e, c, k, n: (normal("bf16", e, c, k), normal("bf16", e, k, n)),
        (8, 512, 1024, 4096), (3, 16, 32, 48), _BF16, right.matmul,
    ),
    "ragged": Case(
        "matmul",
        lambda e, c, k, n: (
            normal("bf16", e * c, k), normal("bf16", e, k, n),
            constant("i32", [c // 2, c + c // 2] * (e // 2), e),
        ),
        (8, 512, 1024, 1024), (4, 16, 32, 48), _BF16, right.ragged,
    ),
    "attention": Case(
        "attention", lambda *shape: (normal("bf16", *shape),) * 3,
        (1, 2048, 16, 64), (2, 32, 2, 64), 2 * _BF16, right.attention,
    ),
    "attention_decode": Case(
        "attention", _one_query, (8, 1024, 16, 16), (2, 32, 2, 2), 2 * _BF16,
        right.attention_decode,
    ),
    "attention_grouped": Case(
        "attention", _one_query, (8, 1024, 32, 8), (2, 32, 4, 2), 2 * _BF16,
        right.attention_decode,
    ),
    "prefill": Case(
        "model", _tokens, (*_DECODER, 1, 512), (*_SMALL_DECODER, 2, 16), 5 * _BF16
    ),
    "decode": Case(
        "model", _step, (*_DECODER, 1024, 700), (*_SMALL_DECODER, 32, 20), 5 * _BF16,
        feed=lambda given, results: (given[0], results[1], *given[2:]),
    ),
    "train": Case(
        "model", _tokens, (*_DECODER, 4, 513), (*_SMALL_DECODER, 2, 17), 5 * _BF16,
        feed=lambda given, results: (results[0], given[1]),
    ),
    "eigh": Case(
        "solver", lambda n: (square(n, lambda x: x + x.T),), (128,), (16,), 1e-4,
        right.eigh, right.seen_eigh,
    ),
    "cholesky": Case(
        "solver", lambda n: (square(n, lambda x: x @ x.T + len(x) * np.eye(len(x))),),
        (512,), (16,), 1e-4, np.linalg.cholesky,
    ),
    "svd": Case(
        "solver", lambda n: (normal("f32", n, n // 2),), (256,), (16,), 1e-4,
        right.svd, right.seen_svd,
    ),
    "qr": Case(
        "solver", lambda n: (normal("f32", n, n // 2),), (512,), (16,), 1e-4,
        right.qr, right.seen_qr,
    ),
    "solve": Case(
        "solver",
        lambda n: (
            square(n, lambda x: x + 2 * len(x) ** 0.5 * np.eye(len(x))), normal("f32", n, 8)
        ),
        (512,), (16,), 1e-3, np.linalg.solve,
    ),
    "triangular_solve": Case(
        "solver",
        lambda n: (
            square(n, lambda x: np.tril(x) + 2 * len(x) ** 0.5 * np.eye(len(x))),
            normal("f32", n, 64),
        ),
        (512,), (16,), 1e-3, np.linalg.solve,
    ),
    "tridiagonal_solve": Case(
        "solver",
        lambda n: (
            constant("f32", np.sin(np.arange(n)), n),
            constant("f32", 4, n),
            constant("f32", np.cos(np.arange(n)) * (np.arange(n) < n - 1), n),
            normal("f32", n, 4),
        ),
        (4096,), (16,), 1e-4, right.tridiagonal_solve,
    ),
    "sparse_matmul": Case(
        "solver", _sparse, (4096, 16, 256), (32, 3, 8), _TF32, right.sparse_matmul
    ),
    "rfft": Case(
        "fft", lambda m, n: (normal("f32", m, n),), (64, 65536), (3, 64), _F32, np.fft.rfft
    ),
    "fft2": Case(
        "fft", lambda m, n: (Leaf("c64", (m, n, n), _complex),), (8, 1024), (2, 16), _F32,
        np.fft.fft2,
    ),
    "sort": Case("order", lambda n: (normal("f32", n),), (1 << 20,), (999,), 0, np.sort),
    "argsort": Case(
        "order", lambda n: (normal("f32", n),), (1 << 20,), (999,), 0,
        lambda x: np.argsort(x, stable=True),
    ),
    "top_k": Case(
        "order", lambda m, n: (normal("f32", m, n),), (16, 32000), (3, 200), 0, right.top_k
    ),
    "cumsum": Case(
        "order", lambda m, n: (normal("f32", m, n),), (64, 65536), (3, 200), 1e-4,
        lambda x: np.cumsum(x, axis=-1),
    ),
    "scatter_add": Case(
        "index",
        lambda m, n, k: (normal("f32", m, n), whole("i32", 0, m, k), normal("f32", k, n)),
        (65536, 64, 262144), (16, 4, 64), _F32, right.scatter_add,
    ),
    "gather": Case(
        "index", lambda m, n, k: (normal("bf16", m, n), whole("i32", 0, m, k)),
        (32000, 1024, 8192), (16, 4, 64), 0, lambda x, places: x[places],
    ),
    "segment_sum": Case(
        "index", lambda m, n: (normal("f32", m, n), whole("i32", 0, 1024, m)),
        (262144, 64), (2048, 4), _F32,
        lambda x, places: right.scatter_add(np.zeros((1024, x.shape[1])), places, x),
    ),
    "normal": Case("random", lambda: (constant("u32", 7, 2),), (), (), _F32),
    "gumbel": Case(
        "random", lambda m, n: (constant("u32", 7, 2), normal("f32", m, n)),
        (16, 32000), (3, 64), _F32,
    ),
    "layernorm": Case(
        "reduction",
        lambda m, n: (normal("bf16", m, n), normal("bf16", n), normal("bf16", n)),
        (8192, 4096), (8, 64), 2 * _BF16, right.layernorm,
    ),
    "softmax": Case(
        "reduction", lambda m, n: (normal("f32", m, n),), (4096, 4096), (8, 64), _F32, right.softmax
    ),
    "while_loop": Case(
        "loop", lambda n: (normal("f32", n, n),), (1024,), (16,), _F32, right.while_loop
    ),
    "softmax_triton": Case(
        "pallas", lambda m, n: (normal("f32", m, n),), (4096, 1024), (8, 64), _F32, right.softmax,
        gpu_only=True,
    ),
    "add_mosaic": Case(
        "pallas", lambda m, n: (normal("f32", m, n), normal("f32", m, n)), (4096, 256), (128, 128),
        _F32, lambda x, y: x + y, gpu_only=True,
    ),
    "conv_network": Case(
        "convolution",
        lambda b, n, c: (normal("bf16", b, n, n, c), _kernels("bf16", c, c, 2 * c, 2 * c)),
        (8, 64, 64), (2, 8, 4), 2 * _BF16,
    ),
    "conv_f32": Case(
        "convolution",
        lambda b, n, c: (normal("f32", b, n, n, c), normal("f32", 3, 3, c, c)),
        (8, 64, 64), (2, 8, 4), _TF32,
    ),
    "conv_1x1": Case(
        "convolution",
        lambda b, n, c: (normal("bf16", b, n, n, c), normal("bf16", 1, 1, c, 2 * c)),
        (16, 56, 128), (2, 8, 4), _BF16,
    ),
    "conv_depthwise": Case(
        "convolution",
        lambda b, n, c: (normal("bf16", b, n, n, c), normal("bf16", 3, 3, 1, c)),
        (16, 56, 128), (2, 8, 4), _BF16,
    ),
    "conv_gradient": Case(
        "convolution",
        lambda b, n, c: (normal("bf16", b, n, n, c), normal("bf16", 3, 3, c, c, scale=0.05)),
        (8, 64, 64), (2, 8, 4), 2 * _BF16,
    ),
    "conv_transposed": Case(
        "convolution",
        lambda b, n, c: (normal("bf16", b, n, n, c), normal("bf16", 3, 3, c, c)),
        (8, 32, 128), (2, 8, 4), _BF16,
    ),
    "conv_1d": Case(
        "convolution", lambda b, n, c: (normal("bf16", b, n, c), normal("bf16", 7, c, c)),
        (16, 4096, 64), (2, 16, 4), _BF16,
    ),
    "conv_3d": Case(
        "convolution",
        lambda b, n, c: (normal("bf16", b, n, n, n, c), normal("bf16", 3, 3, 3, c, c)),
        (2, 32, 32), (1, 6, 4), _BF16,
    ),
}  # fmt: skip
