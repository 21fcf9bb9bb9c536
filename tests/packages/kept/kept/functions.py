import jax
import jax.numpy as jnp
import numpy as np

TABLE = np.arange(512, dtype=np.float32)


def score(tree, x, *, activation):
    act = {"tanh": jnp.tanh, "relu": jax.nn.relu}[activation]
    return {"scores": act(x @ tree["w"] + tree["b"]), "x": x + 1}


def solve(a):
    return jnp.linalg.eigh(a @ a.T)


def draw(key):
    return jax.random.normal(key, (512,)) + jnp.asarray(TABLE)
