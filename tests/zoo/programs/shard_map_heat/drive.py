import jax
import numpy as np
from heat.solve import mesh
from jax.sharding import NamedSharding, PartitionSpec


def solve(solve):
    field = np.random.default_rng(0).normal(size=(16, 8)).astype(np.float32)
    field = jax.device_put(field, NamedSharding(mesh(), PartitionSpec("rows")))
    means = []
    for _ in range(3):
        field, mean = solve(field, np.float32(0.1), steps=3)
        means.append(mean)
    return field, means
