"""Functions that make their own mesh, in the ways that jax takes under jit."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import shard_map
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

MESH = Mesh(np.array(jax.devices()[:4]), ("x",))
GRID = Mesh(MESH.devices.reshape(2, 2), ("data", "model"))
FIRST = Mesh(MESH.devices[:2], ("x",))
ROWS = NamedSharding(MESH, P("x"))
TABLE = jax.device_put(np.arange(32, dtype=np.float32).reshape(8, 4), ROWS)


def made_at_import(x):
    total = shard_map(
        lambda part: jax.lax.psum(part, "x"), mesh=MESH, in_specs=P("x"), out_specs=P()
    )
    return total(x)


def made_inside(x):
    mesh = jax.make_mesh((4,), ("x",), axis_types=(AxisType.Auto,))
    ranked = shard_map(
        lambda part: part * jax.lax.axis_index("x"), mesh=mesh, in_specs=P("x"), out_specs=P("x")
    )
    return ranked(x)


def of_context(x):
    shifted = shard_map(
        lambda part: jax.lax.ppermute(part, "x", [(i, (i + 1) % 4) for i in range(4)]),
        in_specs=P("x"),
        out_specs=P("x"),
    )
    return shifted(x)


def constrained(x):
    y = jax.lax.with_sharding_constraint(x * 2, ROWS)
    return y @ y.T


def old_context(x):
    with MESH:
        return jax.lax.with_sharding_constraint(x * 2, P("x")).sum(0)


def abstract_context(x):
    with jax.sharding.use_abstract_mesh(MESH.abstract_mesh):
        return jax.lax.with_sharding_constraint(x * 3, P("x"))


@functools.partial(jax.jit, out_shardings=ROWS)
def jitted(x):
    return x * 3


def put(x):
    return jax.device_put(x, ROWS) * 2 + TABLE


def gradient(x):
    summed = shard_map(
        lambda a, b: jax.lax.psum(jnp.tanh(a * b).sum(), "x"),
        mesh=MESH,
        in_specs=(P("x"), P("x")),
        out_specs=P(),
    )
    return jax.grad(summed)(x, x + 1)


def on_a_grid(x):
    y = jax.lax.with_sharding_constraint(x * 2, NamedSharding(GRID, P("data", "model")))
    return y + 1


def explicit(w, x, *, b):
    y = jnp.dot(x, w["k"], out_sharding=P("data", "model"))
    assert jax.typeof(x).sharding.spec == P("data", None)
    return jax.sharding.reshard(y * b, P("data")), jax.typeof(y).sharding.spec and w["k"].T


def explicit_inside(x):
    mesh = jax.make_mesh((4,), ("x",), axis_types=(AxisType.Explicit,))
    doubled = shard_map(lambda part: part * 2, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    return doubled(x) + 1


def half_explicit(x):
    return jax.lax.with_sharding_constraint(x + 1, P(None, "model")), x


def sets_the_mesh(x):
    with jax.set_mesh(MESH):
        return x


def on_two(x):
    return jax.lax.with_sharding_constraint(x, NamedSharding(FIRST, P("x")))
