"""A function whose mesh has more devices than the manifest gives it."""

import jax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P


def four(x):
    mesh = jax.make_mesh((4,), ("x",), axis_types=(AxisType.Auto,))
    return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P("x")))


def one(x):
    mesh = jax.make_mesh((1,), ("x",), axis_types=(AxisType.Auto,))
    return jax.lax.with_sharding_constraint(x * 2, NamedSharding(mesh, P("x")))


def placed():
    mesh = jax.make_mesh((1,), ("x",), axis_types=(AxisType.Auto,))
    with jax.set_mesh(mesh):
        return jax.numpy.ones((8, 4))
