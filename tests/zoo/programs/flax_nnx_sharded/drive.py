import jax
import numpy as np
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec
from shardnnx import model as shardnnx


def train_step(step):
    mesh = shardnnx.make_mesh()
    model, optimizer = shardnnx.make_all()
    losses, rng = [], np.random.default_rng(0)
    with jax.set_mesh(mesh):
        for _ in range(3):
            x = rng.normal(size=(8, 8)).astype(np.float32)
            x = jax.device_put(x, NamedSharding(mesh, PartitionSpec("data")))
            losses.append(step(model, optimizer, x, 2 * x))
    return nnx.state(model), losses
