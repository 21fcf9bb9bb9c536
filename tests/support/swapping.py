"""A package of two functions whose weights are hoisted, and trees to replace them with."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from support.packages import Built, build

BACKENDS = pytest.mark.parametrize("arrays", ["jax", "numpy"])
W, B = np.arange(16, dtype=np.float32).reshape(4, 4), np.ones(4, np.float32)
X, OTHER = np.ones((2, 4), np.float32), np.ones((3, 4), np.float32)
PREFIX = "demo.model.P"
NAMES = {f"{PREFIX}.w": W, f"{PREFIX}.b": B}


def affine(x: Any, **constants: Any) -> Any:
    return x @ constants[f"{PREFIX}.w"] + constants[f"{PREFIX}.b"]


def scaled(x: Any, **constants: Any) -> Any:
    return x * constants[f"{PREFIX}.b"]


def tree(factor: float) -> dict[str, Any]:
    return {"w": W * np.float32(factor), "b": B * np.float32(factor)}


@functools.cache
def two_functions() -> list[Built]:
    call, only_b = "swap_source:f", {f"{PREFIX}.b": B}
    return [
        build("f", affine, {"x": X}, call=call, constants=NAMES),
        build("g", scaled, {"x": X}, constants=only_b),
    ]
