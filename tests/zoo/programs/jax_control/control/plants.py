"""Linear systems as a registered dataclass: its sampling time and name are static data."""

import functools
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
from jax.scipy.linalg import expm, solve

jax.config.update("jax_enable_x64", True)


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["a", "b", "q", "r"], meta_fields=["dt", "name"]
)
@dataclass(frozen=True)
class Plant:
    a: jax.Array
    b: jax.Array
    q: jax.Array
    r: jax.Array
    dt: float
    name: str


def make_plant():
    """A mass on a spring with a damper."""
    a = jnp.array([[0.0, 1.0], [-2.0, -0.3]])
    b = jnp.array([[0.0], [1.0]])
    return Plant(a, b, jnp.eye(2), 0.1 * jnp.eye(1), dt=0.05, name="mass")


def discretize(plant):
    """Hold the input over each sampling time."""
    n, m = plant.b.shape
    block = jnp.block([[plant.a, plant.b], [jnp.zeros((m, n + m))]])
    held = expm(block * plant.dt)
    return replace(plant, a=held[:n, :n], b=held[:n, n:])


@jax.jit
def regulator(plant, tolerance=1e-10):
    """Iterate the Riccati equation until it settles; return the cost, the gain and the steps."""
    a, b = plant.a, plant.b

    def gain(p):
        return solve(plant.r + b.T @ p @ b, b.T @ p @ a, assume_a="pos")

    def step(carry):
        p, _, count = carry
        new = plant.q + a.T @ p @ (a - b @ gain(p))
        return new, jnp.abs(new - p).max(), count + 1

    def is_moving(carry):
        _, change, count = carry
        return (change > tolerance) & (count < 1000)

    p, _, count = jax.lax.while_loop(is_moving, step, (plant.q, jnp.inf, 0))
    return p, gain(p), count


def modes(plant):
    values, vectors = jnp.linalg.eig(plant.a)
    return {"poles": values, "vectors": vectors, "damping": -values.real / jnp.abs(values)}


def frequency_response(plant, s):
    """Return the response of both states at complex frequencies."""
    eye = jnp.eye(plant.a.shape[0])
    b = plant.b.astype(complex)
    return jax.vmap(lambda each: jnp.linalg.solve(each * eye - plant.a, b))(s)
