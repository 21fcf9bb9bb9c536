"""The models as ONNX graphs, with the weights inside: what ONNX Runtime and OpenVINO are given.

Written by hand with the `onnx` helpers, so that no other framework stands between. The graphs use
the standard operators that an exporter would choose (LayerNormalization, Gelu, Conv).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_OPSET, _IR_VERSION = 20, 10
_LAYERS, _HEADS, _EPSILON = 12, 8, 1e-5

Arrays = dict[str, np.ndarray]


class Graph:
    """A graph in the making: nodes in their order, and the constants that they name."""

    def __init__(self, weights: Arrays) -> None:
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        for name, array in weights.items():
            self.constant(array, name)

    def constant(self, array: Any, name: str = "") -> str:
        """Return the name of a new constant."""
        name = name or f"constant{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def node(self, operator: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """Return the name of a new node's output; a list of names where it has several."""
        names = [f"{operator.lower()}{len(self._nodes)}_{index}" for index in range(outputs)]
        self._nodes.append(helper.make_node(operator, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def reshape(self, x: str, *sizes: int) -> str:
        """Return x with another shape."""
        return str(self.node("Reshape", x, self.constant(np.array(sizes, np.int64))))

    def dense(self, x: str, name: str) -> str:
        """Return x @ kernel + bias."""
        return str(self.node("Add", self.node("MatMul", x, f"{name}.kernel"), f"{name}.bias"))

    def model(self, given: tuple[str, np.ndarray], result: str, shape: tuple[int, ...]) -> Any:
        """Return the finished model: one input as the example, one f32 output."""
        name, example = given
        kind = helper.np_dtype_to_tensor_dtype(example.dtype)
        graph = helper.make_graph(
            self._nodes,
            "model",
            [helper.make_tensor_value_info(name, kind, example.shape)],
            [helper.make_tensor_value_info(result, TensorProto.FLOAT, shape)],
            self._constants,
        )
        opsets = [helper.make_opsetid("", _OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)
        onnx.checker.check_model(model, full_check=True)
        return model


def make_model(name: str, weights: Arrays, inputs: Arrays) -> Any:
    """Return the ONNX model of one of the benchmark's models."""
    ((given, example),) = inputs.items()
    graph = Graph(weights)
    if name == "transformer":
        result, shape = _transformer(graph, weights, given, example.shape)
    else:
        result, shape = _digits(graph, given, len(example)), (len(example), 10)
    return graph.model((given, example), result, shape)


def _transformer(
    graph: Graph, weights: Arrays, tokens: str, shape: tuple[int, ...]
) -> tuple[str, tuple[int, ...]]:
    length, (vocabulary, _) = shape[1], weights["embedding"].shape
    future = np.triu(np.full((length, length), -1e9, np.float32), k=1)
    mask = graph.constant(future, "mask")
    x = graph.node("Add", graph.node("Gather", "embedding", tokens), "positions")
    for layer in range(_LAYERS):
        prefix = f"layer{layer}."
        mixed = _attend(graph, prefix, _normalize(graph, f"{prefix}norm1", x), shape, mask)
        x = graph.node("Add", x, mixed)
        hidden = graph.dense(_normalize(graph, f"{prefix}norm2", x), f"{prefix}up")
        hidden = graph.node("Gelu", hidden, approximate="tanh")
        x = graph.node("Add", x, graph.dense(hidden, f"{prefix}down"))
    table = graph.constant(weights["embedding"].T, "embedding.T")
    return graph.node("MatMul", _normalize(graph, "norm", x), table), (*shape, vocabulary)


def _attend(graph: Graph, prefix: str, x: str, shape: tuple[int, ...], mask: str) -> str:
    batch, length = shape
    joined = graph.dense(x, f"{prefix}qkv")
    parts = graph.node("Split", joined, outputs=3, axis=2, num_outputs=3)
    query, key, value = (graph.reshape(part, batch, length, _HEADS, -1) for part in parts)
    query = graph.node("Transpose", query, perm=[0, 2, 1, 3])
    key = graph.node("Transpose", key, perm=[0, 2, 3, 1])
    value = graph.node("Transpose", value, perm=[0, 2, 1, 3])
    scale = graph.constant(np.float32(1 / math.sqrt(256 // _HEADS)))
    scores = graph.node("Mul", graph.node("MatMul", query, key), scale)
    weights = graph.node("Softmax", graph.node("Add", scores, mask), axis=-1)
    mixed = graph.node("Transpose", graph.node("MatMul", weights, value), perm=[0, 2, 1, 3])
    return graph.dense(graph.reshape(mixed, batch, length, -1), f"{prefix}project")


def _normalize(graph: Graph, name: str, x: str) -> str:
    scale, bias = f"{name}.scale", f"{name}.bias"
    return str(graph.node("LayerNormalization", x, scale, bias, axis=-1, epsilon=_EPSILON))


def _digits(graph: Graph, images: str, batch: int) -> str:
    """NHWC as the weights have it is NCHW in ONNX; one channel needs no transpose before."""
    x = graph.reshape(images, batch, 1, 8, 8)
    x = _convolve(graph, "conv1", x, stride=1, pads=[1, 1, 1, 1])
    x = _convolve(graph, "conv2", x, stride=2, pads=[0, 0, 1, 1])
    x = graph.reshape(graph.node("Transpose", x, perm=[0, 2, 3, 1]), batch, -1)
    x = graph.node("Relu", graph.dense(x, "hidden"))
    return str(graph.node("LogSoftmax", graph.dense(x, "output"), axis=-1))


def _convolve(graph: Graph, name: str, x: str, *, stride: int, pads: list[int]) -> str:
    kernel = graph.node("Transpose", f"{name}.kernel", perm=[3, 2, 0, 1])
    strides = [stride, stride]
    return str(
        graph.node(
            "Relu", graph.node("Conv", x, kernel, f"{name}.bias", strides=strides, pads=pads)
        )
    )
