"""A module and its optimizer over four devices: nnx.with_partitioning, a mesh in the context."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P


class MLP(nnx.Module):
    def __init__(self, size, rngs):
        kernel, bias = nnx.initializers.lecun_normal(), nnx.initializers.zeros
        self.up = nnx.Linear(
            size,
            4 * size,
            rngs=rngs,
            kernel_init=nnx.with_partitioning(kernel, (None, "model")),
            bias_init=nnx.with_partitioning(bias, ("model",)),
        )
        self.down = nnx.Linear(
            4 * size, size, rngs=rngs, kernel_init=nnx.with_partitioning(kernel, ("model", None))
        )

    def __call__(self, x):
        hidden = nnx.relu(self.up(x))
        return self.down(jax.lax.with_sharding_constraint(hidden, P("data", "model")))


def make_mesh():
    return jax.make_mesh((2, 2), ("data", "model"), axis_types=(AxisType.Auto, AxisType.Auto))


@nnx.jit
def create():
    """Return a model and its optimizer, placed as their Variables say."""
    model = MLP(8, nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)
    state = nnx.state((model, optimizer))
    specs = nnx.get_partition_spec(state)
    nnx.update((model, optimizer), jax.lax.with_sharding_constraint(state, specs))
    return model, optimizer


def make_all():
    with jax.set_mesh(make_mesh()):
        return create()


def make_model():
    return make_all()[0]


def make_optimizer():
    return make_all()[1]


@nnx.jit
def train_step(model, optimizer, x, y):
    def loss_fn(model):
        return jnp.mean((model(x) - y) ** 2)

    loss, grads = nnx.value_and_grad(loss_fn)(model)
    optimizer.update(model, grads)
    return loss
