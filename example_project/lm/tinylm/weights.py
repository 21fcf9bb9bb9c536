"""Make weights, write and read them as safetensors. Needs numpy, not jax.

    python -m tinylm.weights weights.safetensors

Nobody trained this model: its weights are random numbers, the same ones everywhere. What it writes
is noise, and takes as long as sense would.
"""

import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from tinylm.sizes import HEAD, HEADS, HIDDEN, KV_HEADS, LAYERS, VOCAB, WIDTH

SEED = 0
LAYER = {
    "norm_attention": (WIDTH,),
    "query": (WIDTH, HEADS * HEAD),
    "key": (WIDTH, KV_HEADS * HEAD),
    "value": (WIDTH, KV_HEADS * HEAD),
    "output": (HEADS * HEAD, WIDTH),
    "norm_hidden": (WIDTH,),
    "gate": (WIDTH, HIDDEN),
    "up": (WIDTH, HIDDEN),
    "down": (HIDDEN, WIDTH),
}

Array: TypeAlias = NDArray[np.float32]


def load_params(path: str, read: Callable[[str], dict[str, Any]] = load_file) -> dict[str, Any]:
    """Read the tree that `prefill` and `decode` take from a file, with any reader of such files."""
    return tree(read(path))


def write_random(path: str) -> None:
    """Write a file of random weights, the same bytes each time."""
    random = np.random.default_rng(SEED)
    save_file({name: _random(random, shape) for name, shape in names().items()}, path)


def names() -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor by its name in the file."""
    layers = {f"layers.{n}.{name}": LAYER[name] for n in range(LAYERS) for name in LAYER}
    return {"embed": (VOCAB, WIDTH), "norm": (WIDTH,), **layers}


def tree(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Turn names such as `layers.3.gate` into a tree."""
    layers = [{name: flat[f"layers.{n}.{name}"] for name in LAYER} for n in range(LAYERS)]
    return {"embed": flat["embed"], "norm": flat["norm"], "layers": layers}


def zeros() -> dict[str, Any]:
    """Return the tree with zeros: its shapes and dtypes are what the manifest reads."""
    return tree({name: np.zeros(shape, np.float32) for name, shape in names().items()})


def _random(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Return ones for the scales of norms, and matrices that keep the variance of what they get."""
    if len(shape) == 1:
        return np.ones(shape, np.float32)
    return random.standard_normal(shape, np.float32) / np.float32(np.sqrt(shape[0]))


if __name__ == "__main__":
    write_random(sys.argv[1])
