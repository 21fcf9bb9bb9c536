"""Functions over two devices that tests of recordings call."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

MESH = Mesh(np.array(jax.devices()), ("data",))
EXPLICIT = jax.make_mesh((2,), ("data",), (AxisType.Explicit,))
SPLIT = NamedSharding(MESH, PartitionSpec("data"))


def split(x: Any) -> Any:
    return x * 2


told = jax.jit(split, in_shardings=SPLIT)
of_result = jax.jit(split, out_shardings=SPLIT)
placed = jax.jit(lambda params, x: params["w"] * x)


def nameless() -> Any:
    """Return a jit whose shardings no module has."""
    return jax.jit(split, in_shardings=SPLIT)


@jax.jit
def doubled(x: Any) -> Any:
    return x * 2


@jax.jit
def inside(x: Any) -> Any:
    return jax.lax.with_sharding_constraint(x, PartitionSpec("data"))
