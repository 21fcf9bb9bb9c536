"""The models in PyTorch, over the same weights."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

_LAYERS, _HEADS = 12, 8

Arrays = dict[str, np.ndarray]


class _Model(nn.Module):  # type: ignore[misc]
    """A module whose buffers are the weights, dots in their names replaced."""

    def __init__(self, weights: Arrays) -> None:
        super().__init__()
        for name, array in weights.items():
            self.register_buffer(name.replace(".", "_"), torch.from_numpy(array.copy()))

    def dense(self, name: str, x: Tensor) -> Tensor:
        """Return x @ kernel + bias."""
        return x @ self.get_buffer(f"{name}_kernel") + self.get_buffer(f"{name}_bias")


class Transformer(_Model):
    """The decoder of `models/transformer.py`."""

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits of each next token: i32[batch, 64] to f32[batch, 64, 2048]."""
        embedding = self.get_buffer("embedding")
        x = functional.embedding(tokens, embedding) + self.get_buffer("positions")
        for layer in range(_LAYERS):
            prefix = f"layer{layer}_"
            x = x + self._attend(prefix, self._normalize(f"{prefix}norm1", x))
            hidden = self.dense(f"{prefix}up", self._normalize(f"{prefix}norm2", x))
            x = x + self.dense(f"{prefix}down", functional.gelu(hidden, approximate="tanh"))
        return self._normalize("norm", x) @ embedding.T

    def _attend(self, prefix: str, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        joined = self.dense(f"{prefix}qkv", x).view(batch, length, 3, _HEADS, width // _HEADS)
        query, key, value = joined.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.dense(f"{prefix}project", mixed.transpose(1, 2).reshape(batch, length, width))

    def _normalize(self, name: str, x: Tensor) -> Tensor:
        scale, bias = self.get_buffer(f"{name}_scale"), self.get_buffer(f"{name}_bias")
        return functional.layer_norm(x, scale.shape, scale, bias, eps=1e-5)


class Digits(_Model):
    """The CNN of `models/digits.py`."""

    def forward(self, images: Tensor) -> Tensor:
        """Return the log-probability of each digit: f32[batch, 8, 8] to f32[batch, 10]."""
        x = self._convolve("conv1", images[:, None], stride=1, pads=(1, 1, 1, 1))
        x = self._convolve("conv2", x, stride=2, pads=(0, 1, 0, 1))
        x = torch.relu(self.dense("hidden", x.permute(0, 2, 3, 1).flatten(1)))
        return torch.log_softmax(self.dense("output", x), dim=-1)

    def _convolve(
        self, name: str, x: Tensor, *, stride: int, pads: tuple[int, int, int, int]
    ) -> Tensor:
        kernel = self.get_buffer(f"{name}_kernel").permute(3, 2, 0, 1)
        bias = self.get_buffer(f"{name}_bias")
        return torch.relu(functional.conv2d(functional.pad(x, pads), kernel, bias, stride=stride))


def make_module(name: str, weights: Arrays) -> nn.Module:
    """Return one of the benchmark's models, for inference."""
    kind = {"transformer": Transformer, "digits": Digits}[name]
    return kind(weights).eval()
