"""Four devices in a ring: FFT, pipeline, ring attention, experts and FSDP, by collectives."""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import mesh_utils
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

COUNT = 4
MESH = Mesh(mesh_utils.create_device_mesh((COUNT,)), ("x",))
RING = [(place, (place + 1) % COUNT) for place in range(COUNT)]
over_ring = functools.partial(jax.shard_map, mesh=MESH)


def varying(tree):
    return lax.pcast(tree, "x", to="varying")


@over_ring(in_specs=P("x"), out_specs=P("x"))
def fft2(rows):
    """A two-dimensional FFT: of rows, then of columns after a transposition by all_to_all."""
    rows = jnp.fft.fft(rows, axis=1)
    columns = lax.all_to_all(rows, "x", split_axis=1, concat_axis=0, tiled=True)
    columns = jnp.fft.fft(columns, axis=0)
    return lax.all_to_all(columns, "x", split_axis=0, concat_axis=1, tiled=True)


@over_ring(in_specs=(P("x"), P()), out_specs=P())
def pipeline(weights, batches):
    """One layer on each device; the batches go through them one after the other."""
    place, count = lax.axis_index("x"), len(batches)

    def tick(carry, time):
        given, done = carry
        feed = batches[jnp.clip(time, 0, count - 1)]
        out = jnp.tanh(jnp.where(place == 0, feed, given) @ weights[0])
        slot = time - (COUNT - 1)
        written = lax.dynamic_update_index_in_dim(done, out, jnp.maximum(slot, 0), 0)
        done = jnp.where((place == COUNT - 1) & (slot >= 0), written, done)
        return (lax.ppermute(out, "x", RING), done), None

    start = varying((jnp.zeros_like(batches[0]), jnp.zeros_like(batches)))
    (_, done), _ = lax.scan(tick, start, jnp.arange(count + COUNT - 1))
    return lax.psum(jnp.where(place == COUNT - 1, done, 0), "x")


@over_ring(in_specs=(P(None, "x"),) * 3, out_specs=P(None, "x"))
def ring_attention(q, k, v):
    """Attention over a sequence that is split: keys and values travel around the ring."""
    batch, length, heads, size = q.shape

    def step(carry, _):
        most, total, out, k, v = carry
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / size**0.5
        new = jnp.maximum(most, scores.max(-1))
        weights, scale = jnp.exp(scores - new[..., None]), jnp.exp(most - new)
        total = total * scale + weights.sum(-1)
        out = out * scale[..., None] + jnp.einsum("bhqk,bkhd->bhqd", weights, v)
        return (new, total, out, *lax.ppermute((k, v), "x", RING)), None

    shape = (batch, heads, length)
    start = varying((jnp.full(shape, -jnp.inf), jnp.zeros(shape), jnp.zeros((*shape, size))))
    (_, total, out, _, _), _ = lax.scan(step, (*start, k, v), None, length=COUNT)
    return jnp.einsum("bhqd->bqhd", out / total[..., None])


@over_ring(in_specs=(P("x"), P("x"), P()), out_specs=P("x"))
def experts(tokens, weights, gate):
    """A mixture of experts, one on each device: tokens travel to theirs and back."""
    count, size = tokens.shape
    logits, rows = tokens @ gate, jnp.arange(count)
    which = jnp.argmax(logits, -1)
    slots = jnp.cumsum(jax.nn.one_hot(which, COUNT, dtype=jnp.int32), 0)[rows, which] - 1
    sent = jnp.zeros((COUNT, count, size)).at[which, slots].set(tokens)
    done = jax.nn.relu(lax.all_to_all(sent, "x", 0, 0) @ weights[0])
    back = lax.all_to_all(done, "x", 0, 0)[which, slots]
    return back * jax.nn.softmax(logits)[rows, which][:, None]


def make_params():
    keys = jax.random.split(jax.random.key(0), 3)
    return [jax.random.normal(key, (8, 8)) * 0.3 for key in keys]


def fsdp_step(params, x, y):
    """Parameters are split where they rest, and whole where they are used."""
    split, whole = NamedSharding(MESH, P("x")), NamedSharding(MESH, P())

    def loss_fn(params):
        *inner, last = lax.with_sharding_constraint(params, whole)
        hidden = functools.reduce(lambda h, w: jnp.tanh(h @ w), inner, x)
        return jnp.mean((hidden @ last - y) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(params)
    grads = lax.with_sharding_constraint(grads, split)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss
