"""What the package ships: trained weights and held-out images. Needs numpy only, not jax."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).parent
INK = 16  # the darkest pixel of the data set


def load_params() -> dict[str, dict[str, NDArray[np.float32]]]:
    """Return the trained weights by layer and name."""
    params: dict[str, dict[str, NDArray[np.float32]]] = {}
    with np.load(HERE / "weights.npz") as weights:
        for key, array in weights.items():
            layer, name = key.split(".")
            params.setdefault(layer, {})[name] = array
    return params


def load_heldout() -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    """Return the images no training saw, f32[n, 8, 8] in 0..1, and their labels, u8[n]."""
    with np.load(HERE / "heldout.npz") as heldout:
        return scale(heldout["images"]), heldout["labels"]


def scale(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Turn pixels of 0..16 into what the network reads, 0..1."""
    return images.astype(np.float32) / np.float32(INK)


def batches(images: NDArray[np.float32], size: int) -> Iterator[tuple[NDArray[np.float32], int]]:
    """Yield batches of exactly `size` images, the last one padded with blanks, and their counts."""
    for start in range(0, len(images), size):
        batch = images[start : start + size]
        count = len(batch)
        yield np.pad(batch, ((0, size - count), (0, 0), (0, 0))), count
