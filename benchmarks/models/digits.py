"""The CNN of `example_project` with seeded weights: pure JAX, weights as an argument."""

from __future__ import annotations

from collections.abc import Mapping

import jax

Weights = Mapping[str, jax.Array]


def apply(weights: Weights, images: jax.Array) -> jax.Array:
    """Return the log-probability of each digit: f32[batch, 8, 8] to f32[batch, 10]."""
    x = jax.nn.relu(_convolve(weights, "conv1", images[..., None], stride=1))
    x = jax.nn.relu(_convolve(weights, "conv2", x, stride=2))
    x = jax.nn.relu(_dense(weights, "hidden", x.reshape(len(x), -1)))
    scores: jax.Array = jax.nn.log_softmax(_dense(weights, "output", x))
    return scores


def _convolve(weights: Weights, name: str, x: jax.Array, *, stride: int) -> jax.Array:
    y = jax.lax.conv_general_dilated(
        x,
        weights[f"{name}.kernel"],
        window_strides=(stride, stride),
        padding="SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
    biased: jax.Array = y + weights[f"{name}.bias"]
    return biased


def _dense(weights: Weights, name: str, x: jax.Array) -> jax.Array:
    return x @ weights[f"{name}.kernel"] + weights[f"{name}.bias"]
