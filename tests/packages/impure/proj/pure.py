"""Side effects that change no program: a build takes these, with a note where one is seen."""

import functools
import logging
import random
import time
import uuid
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from proj.installed import Guide

log = logging.getLogger(__name__)
COUNT = 0
NAMES = []
REGISTRY = {}
WEIGHTS = np.arange(4.0, dtype=np.float32)
FILLED = np.zeros(3)
TABLE = jnp.arange(4.0)


def counts(x):
    global COUNT
    COUNT += 1
    return x * 2


def registers(x):
    NAMES.append("registers")
    REGISTRY["registers"] = registers
    print("tracing")
    log.warning("tracing %s", x.shape)
    return x + 1


def fills(x):
    FILLED[1] += 1
    return x + TABLE * WEIGHTS


@functools.cache
def _table():
    return np.arange(4.0, dtype=np.float32)


class Model:
    @functools.cached_property
    def table(self):
        return np.arange(4.0, dtype=np.float32)

    def lazy(self, x):
        return x + self.table + _table()


model = Model()


def seeded(x):
    noise = np.random.default_rng(7).normal(size=4).astype(np.float32)
    return jnp.where(x < 1e9, x + noise + random.Random(7).random(), jnp.nan)


@jax.custom_jvp
def soft(x):
    return jnp.tanh(x) * next(iter({3}))


soft.defjvp(lambda primals, tangents: (soft(*primals), tangents[0]))


@jax.custom_vjp
def clipped(x):
    return jnp.clip(x, 0.0, 1.0)


clipped.defvjp(lambda x: (clipped(x), None), lambda _, g: (g,))


@jax.checkpoint
def block(x):
    return jnp.sin(jax.lax.cond(x[0] > 0, lambda y: y * 2, lambda y: y / 3, x))


def nested(x):
    def body(carry, y):
        return jax.lax.while_loop(lambda c: c < 3, lambda c: c + 1, carry) + y, y

    carry, _ = jax.lax.scan(body, 0.0, block(clipped(soft(x))))
    gradient = jax.grad(lambda y: jnp.sum(block(soft(y)) ** 2))(x)
    return carry, gradient, jax.vmap(lambda y: (lambda z: z + y)(y))(x)


def logs(x):
    log.warning("tracing at %s", x)
    with jax.named_scope("scope"):
        return x + jax.random.normal(jax.random.key(0))


def times(x):
    start = time.perf_counter()  # @times
    y = jnp.sin(x)
    print(time.perf_counter() - start, uuid.uuid4())  # @uuid
    return y


def draws(x):
    np.random.rand(3)  # @draws
    return x


def from_file(x):
    return x + np.load(Path(__file__).with_name("table.npy"))  # @from_file


guide = Guide()


def guided(x):
    return guide.start(x)
