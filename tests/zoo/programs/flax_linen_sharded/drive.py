import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from shardlm import model


def train_step(step):
    mesh = jax.make_mesh((2, 2), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    state, specs = model.make_state(), model.state_specs()
    state = jax.tree.map(
        lambda spec, part: jax.device_put(part, NamedSharding(mesh, spec)),
        specs.params,
        state.params,
        is_leaf=lambda x: isinstance(x, PartitionSpec),
    )
    state = model.make_state().replace(params=state)
    losses = []
    rng = np.random.default_rng(0)
    with jax.set_mesh(mesh):
        for _ in range(3):
            tokens = rng.integers(0, model.TOKENS, (4, 9)).astype(np.int32)
            tokens = jax.device_put(tokens, NamedSharding(mesh, PartitionSpec("data")))
            state, loss = step(state, tokens)
            losses.append(loss)
    return state.params, losses
