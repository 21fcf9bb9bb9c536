"""One step over four devices: data parallel by two, tensor parallel by two, by jax.shard_map."""

from functools import partial

import jax
import jax.numpy as jnp
import optax
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

optimizer = optax.adam(1e-2)
SPECS = {"up": P(None, "model"), "down": P("model", None)}


def make_params():
    up, down = jax.random.split(jax.random.key(0))
    return {
        "up": jax.random.normal(up, (8, 32)) * 0.3,
        "down": jax.random.normal(down, (32, 4)) * 0.2,
    }


def make_opt_state():
    return optimizer.init(make_params())


def train_step(params, opt_state, x, y):
    mesh = jax.make_mesh((2, 2), ("data", "model"), axis_types=(AxisType.Auto, AxisType.Auto))

    @partial(
        jax.shard_map, mesh=mesh, in_specs=(SPECS, P("data"), P("data")), out_specs=(P(), SPECS)
    )
    def loss_and_grads(params, x, y):
        def loss_fn(params):
            hidden = jax.nn.gelu(x @ params["up"])
            found = jax.lax.psum(hidden @ params["down"], "model")
            return jax.lax.pmean(jnp.mean((found - y) ** 2), "data")

        return jax.value_and_grad(loss_fn)(params)

    loss, grads = loss_and_grads(params, x, y)
    updates, opt_state = optimizer.update(grads, opt_state)
    return optax.apply_updates(params, updates), opt_state, loss
