"""Weights and inputs of the models, seeded, as numpy arrays: every system reads the same files.

`write_data` makes `weights.npz` and `inputs.npz` (uncompressed) and `shapes.json`, which says what
is in them. Needs numpy only.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

Arrays = dict[str, np.ndarray]
Shapes = dict[str, tuple[int, ...]]

LAYERS, WIDTH, HEADS, VOCABULARY, SEQUENCE, BATCH = 12, 256, 8, 2048, 64, 1
IMAGES = 8
_SEED = 2026


def transformer_shapes() -> Shapes:
    """Return the weights of the transformer; 40 MB as f32."""
    shapes: Shapes = {"embedding": (VOCABULARY, WIDTH), "positions": (SEQUENCE, WIDTH)}
    for layer in range(LAYERS):
        for name, shape in _layer_shapes().items():
            shapes[f"layer{layer}.{name}"] = shape
    return {**shapes, "norm.scale": (WIDTH,), "norm.bias": (WIDTH,)}


def _layer_shapes() -> Shapes:
    return {
        "norm1.scale": (WIDTH,),
        "norm1.bias": (WIDTH,),
        "qkv.kernel": (WIDTH, 3 * WIDTH),
        "qkv.bias": (3 * WIDTH,),
        "project.kernel": (WIDTH, WIDTH),
        "project.bias": (WIDTH,),
        "norm2.scale": (WIDTH,),
        "norm2.bias": (WIDTH,),
        "up.kernel": (WIDTH, 4 * WIDTH),
        "up.bias": (4 * WIDTH,),
        "down.kernel": (4 * WIDTH, WIDTH),
        "down.bias": (WIDTH,),
    }


def digits_shapes() -> Shapes:
    """Return the weights of the digits CNN of `example_project`; 0.1 MB as f32."""
    return {
        "conv1.kernel": (3, 3, 1, 16),
        "conv1.bias": (16,),
        "conv2.kernel": (3, 3, 16, 32),
        "conv2.bias": (32,),
        "hidden.kernel": (512, 48),
        "hidden.bias": (48,),
        "output.kernel": (48, 10),
        "output.bias": (10,),
    }


def seeded(shapes: Shapes, rng: np.random.Generator) -> Arrays:
    """Return f32 weights: scales near 1, biases near 0, kernels that keep the variance."""
    weights = {}
    for name, shape in shapes.items():
        fan_in = int(np.prod(shape[:-1])) if name.endswith("kernel") else 50
        array = rng.standard_normal(shape, dtype=np.float32) / np.float32(np.sqrt(fan_in))
        weights[name] = array + np.float32(name.endswith("scale"))
    return weights


def make_data(model: str) -> tuple[Arrays, Arrays]:
    """Return (weights, inputs) of a model; the inputs are in the order of the arguments."""
    rng = np.random.default_rng(_SEED)
    if model == "transformer":
        tokens = rng.integers(0, VOCABULARY, (BATCH, SEQUENCE), dtype=np.int32)
        return seeded(transformer_shapes(), rng), {"tokens": tokens}
    if model == "digits":
        images = rng.random((IMAGES, 8, 8), dtype=np.float32)
        return seeded(digits_shapes(), rng), {"images": images}
    # A free body with four legs of two joints: see `ant.xml` beside this file.
    position = np.concatenate([[0, 0, 0.6, 1, 0, 0, 0], rng.uniform(-0.3, 0.3, 8)])
    state = {
        "position": position.astype(np.float32),
        "velocity": rng.uniform(-0.5, 0.5, 14).astype(np.float32),
        "control": rng.uniform(-0.5, 0.5, 8).astype(np.float32),
    }
    return {}, state


def write_data(model: str, folder: Path) -> None:
    """Write the files of a model into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    described = {}
    for kind, arrays in zip(("weights", "inputs"), make_data(model), strict=True):
        np.savez(folder / f"{kind}.npz", **arrays)  # type: ignore[arg-type]
        described[kind] = {
            name: {"shape": list(array.shape), "dtype": array.dtype.name}
            for name, array in arrays.items()
        }
    (folder / "shapes.json").write_text(json.dumps(described, indent=1) + "\n")
