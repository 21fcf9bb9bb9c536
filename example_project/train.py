"""Train the network and write digits/weights.npz and digits/heldout.npz.

    python -m pip install jax scikit-learn
    python train.py

The outputs are committed, so nobody needs to run this to build the wheel.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits  # type: ignore[import-untyped]

from digits.data import HERE, scale
from digits.model import Params, predict

SEED = 0
EPOCHS = 60
BATCH = 64
RATE = 2e-3
DECAY = 1e-3
SHAPES = {
    "conv1": (3, 3, 1, 16),
    "conv2": (3, 3, 16, 32),
    "hidden": (4 * 4 * 32, 48),
    "output": (48, 10),
}


class Adam(NamedTuple):
    """The running means of the gradients and of their squares, and the steps taken."""

    mean: Params
    square: Params
    step: jax.Array


def main() -> None:
    """Train on four images of five, keep every fifth, write weights and held-out images."""
    data = load_digits()
    images, labels = data.images.astype(np.uint8), data.target.astype(np.uint8)
    kept = np.arange(len(labels)) % 5 == 0
    params = train(scale(images[~kept]), labels[~kept])
    guesses = jax.jit(predict)(params, scale(images[kept])).argmax(axis=1)
    print(f"held-out accuracy {np.mean(guesses == labels[kept]):.4f} of {kept.sum()}")
    write("weights.npz", {f"{a}.{b}": params[a][b] for a in params for b in params[a]})
    write("heldout.npz", {"images": images[kept], "labels": labels[kept]})


def train(images: NDArray[np.float32], labels: NDArray[np.uint8]) -> Params:
    """Return trained params; the same seed gives the same ones on the same machine."""
    params = initial(jax.random.key(SEED))
    zeros = jax.tree.map(jnp.zeros_like, params)
    state = Adam(zeros, zeros, jnp.zeros((), jnp.int32))
    total = EPOCHS * (len(labels) // BATCH)
    for rows in shuffled(len(labels)):
        params, state, loss = update(params, state, images[rows], labels[rows], total=total)
    print(f"trained for {total} steps, last loss {loss:.4f}")
    return params


def initial(key: jax.Array) -> Params:
    """Return random kernels (He et al. 2015, https://arxiv.org/abs/1502.01852), zero biases."""
    he = jax.nn.initializers.he_normal()
    keys = jax.random.split(key, len(SHAPES))
    return {
        layer: {"kernel": he(key, shape), "bias": jnp.zeros(shape[-1])}
        for key, (layer, shape) in zip(keys, SHAPES.items(), strict=True)
    }


def shuffled(count: int) -> Iterator[NDArray[np.int64]]:
    """Yield the rows of every batch of every epoch."""
    random = np.random.default_rng(SEED)
    for _ in range(EPOCHS):
        order = random.permutation(count)
        for start in range(0, count - BATCH + 1, BATCH):
            yield order[start : start + BATCH]


@partial(jax.jit, static_argnames="total")
def update(
    params: Params, state: Adam, images: jax.Array, labels: jax.Array, *, total: int
) -> tuple[Params, Adam, jax.Array]:
    """Take one step of Adam (https://arxiv.org/abs/1412.6980) with a cosine learning rate."""
    loss, grads = jax.value_and_grad(cross_entropy)(params, images, labels)
    step = state.step + 1
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state.mean, grads)
    square = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, state.square, grads)
    rate = RATE * 0.5 * (1 + jnp.cos(jnp.pi * state.step / total))

    def moved(param: jax.Array, m: jax.Array, s: jax.Array) -> jax.Array:
        direction = m / (1 - 0.9**step) / (jnp.sqrt(s / (1 - 0.999**step)) + 1e-8)
        return param - rate * (direction + DECAY * param)

    return jax.tree.map(moved, params, mean, square), Adam(mean, square, step), loss


def cross_entropy(params: Params, images: jax.Array, labels: jax.Array) -> jax.Array:
    """Return the mean loss of one batch."""
    right = jnp.take_along_axis(predict(params, images), labels[:, None].astype(int), axis=1)
    return -right.mean()


def write(name: str, arrays: dict[str, Any]) -> None:
    """Write arrays into the package, the same bytes each time."""
    np.savez(HERE / name, **arrays)
    print(f"wrote {HERE / name}, {(HERE / name).stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
