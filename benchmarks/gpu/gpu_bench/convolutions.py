"""Convolutions: channels last, in one, two and three dimensions."""

from __future__ import annotations

from collections.abc import Sequence

import jax
from jax import Array, lax

# Layouts of input, kernel and output, by the number of spatial dimensions.
_LAYOUTS = {1: ("NWC", "WIO", "NWC"), 2: ("NHWC", "HWIO", "NHWC"), 3: ("NDHWC", "DHWIO", "NDHWC")}


def convolve(x: Array, w: Array, stride: int = 1, groups: int = 1) -> Array:
    spatial = x.ndim - 2
    strides, layout = (stride,) * spatial, _LAYOUTS[spatial]
    return lax.conv_general_dilated(
        x, w, strides, "SAME", dimension_numbers=layout, feature_group_count=groups
    )


def network(x: Array, kernels: Sequence[Array]) -> Array:
    for kernel in kernels:
        x = jax.nn.relu(convolve(x, kernel))
    return x.mean((1, 2))


def depthwise(x: Array, w: Array) -> Array:
    return convolve(x, w, groups=x.shape[-1])


def gradient(x: Array, w: Array) -> tuple[Array, Array]:
    """Return the gradient of a strided convolution, for its input and its kernel."""
    return jax.grad(lambda x, w: (convolve(x, w, stride=2) ** 2).sum(), argnums=(0, 1))(x, w)


def transposed(x: Array, w: Array) -> Array:
    return lax.conv_transpose(x, w, (2, 2), "SAME", dimension_numbers=_LAYOUTS[2])
