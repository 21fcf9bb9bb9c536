"""The network: plain JAX functions of (params, images). `aot.yaml` says what is compiled.

Images are f32[batch, 8, 8] with ink in 0..1. Params come from `load_params`.
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import jax

from digits.data import load_params

__all__ = ["Layer", "Params", "TopK", "embed", "load_params", "predict", "top_k"]

Layer: TypeAlias = Mapping[str, jax.Array]
Params: TypeAlias = Mapping[str, Layer]


class TopK(NamedTuple):
    """The likeliest classes of each image, best first."""

    classes: jax.Array  # i32[batch, k]
    probabilities: jax.Array  # f32[batch, k]


def predict(params: Params, images: jax.Array) -> jax.Array:
    """Return the log-probability of each digit, f32[batch, 10]."""
    return jax.nn.log_softmax(_dense(params["output"], embed(params, images)))


def embed(params: Params, images: jax.Array) -> jax.Array:
    """Return the features that `predict` classifies, f32[batch, 48]."""
    x = images[..., None]
    x = jax.nn.relu(_convolve(params["conv1"], x, stride=1))
    x = jax.nn.relu(_convolve(params["conv2"], x, stride=2))
    return jax.nn.relu(_dense(params["hidden"], x.reshape(len(x), -1)))


def top_k(params: Params, images: jax.Array, *, k: int) -> TopK:
    """Return the `k` likeliest classes of each image; `k` is static."""
    scores, classes = jax.lax.top_k(predict(params, images), k)
    return TopK(classes, jax.numpy.exp(scores))


def _convolve(layer: Layer, x: jax.Array, *, stride: int) -> jax.Array:
    y = jax.lax.conv_general_dilated(
        x,
        layer["kernel"],
        window_strides=(stride, stride),
        padding="SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
    return y + layer["bias"]


def _dense(layer: Layer, x: jax.Array) -> jax.Array:
    return x @ layer["kernel"] + layer["bias"]
