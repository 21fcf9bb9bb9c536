import jax.numpy as jnp
from arm.dynamics import data, model


def step(step):
    m, d = model(), data()
    for number in range(4):
        d = step(m, d, jnp.array([0.1 * number, 0.0], jnp.float32))
    return d.joint_positions, d.joint_velocities, d.base_transform


def dynamics(dynamics):
    return dynamics(model(), data())
