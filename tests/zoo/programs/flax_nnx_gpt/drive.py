import jax.numpy as jnp
import numpy as np
from charlm import model as charlm
from flax import nnx


def train_step(step):
    model, optimizer = charlm.make_model(), charlm.make_optimizer()
    metrics = charlm.make_metrics()
    rng = np.random.default_rng(0)
    losses = [
        step(model, optimizer, metrics, rng.integers(0, 64, (4, 16)).astype(np.int32))
        for _ in range(3)
    ]
    return losses, nnx.state(model), nnx.state(optimizer), metrics.compute()


def decode(step):
    texts = []
    for batch in (1, 2):
        model = charlm.make_decoder(batch)
        tokens = [jnp.ones((batch, 1), jnp.int32)]
        for _ in range(6):
            tokens.append(step(model, tokens[-1]))
        texts.append((jnp.concatenate(tokens, axis=1), nnx.state(model, nnx.Cache)))
    return texts
