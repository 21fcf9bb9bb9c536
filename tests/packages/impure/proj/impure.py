"""Functions whose program hangs on more than their arguments. Tests name lines by `# @name`."""

import datetime as dt
import functools
import random
import secrets
import time
from time import time as now

import jax
import jax.numpy as jnp
import numpy as np

from proj.installed import Average, table

CALLS = 0
SEEN = []
CACHE = {}
LAST = {"value": None}


def clock(x):
    return x + (time.perf_counter_ns() % 1009)  # @clock


def literal(x):
    return x * random.random()  # @literal


def array(x):
    noise = np.random.rand(4).astype("float32")
    return jnp.where(x > 0, noise, x)  # @array


@jax.jit
def _inner(x):
    return x - random.random()  # @in_jit


def in_jit(x):
    return _inner(x) * 2


def counter(x):
    global CALLS
    CALLS += 1
    return x * CALLS  # @counter


def grows(x):
    SEEN.append(len(SEEN))
    for _ in SEEN:
        x = jnp.sin(x)  # @grows
    return x


def shrinks(x):
    if "scale" not in CACHE:
        CACHE["scale"] = 2
        x = jnp.cos(x)  # @shrinks
    return x * 2


def tree(x):  # @tree
    CALLED[0] += 1
    return {f"step{CALLED[0]}": x}


CALLED = [0]


def axis(x):
    AXES.reverse()
    return jnp.cumsum(x.reshape(2, 2), axis=AXES[0])  # @axis


AXES = [0, 1]


def _make_counted():
    number = 0

    def counted(x):
        nonlocal number
        number += 1
        return x + number  # @closure

    return counted


closure = _make_counted()


class Model:
    @functools.cached_property
    def table(self):
        return jnp.arange(4.0)  # @cached_property

    def lazy(self, x):
        return x + self.table


model = Model()


# --- traced values that are kept


def keeps_global(x):
    LAST["value"] = x * 2  # @keeps_global
    return x


def keeps_in_loop(x):
    def body(i, carry):
        LOOP.append(carry + i)  # @keeps_in_loop
        return carry

    return jax.lax.fori_loop(0, 3, body, x)


LOOP = []


def _make_keeper():
    last = None

    def keeper(x):
        nonlocal last
        last = jnp.exp(x)  # @keeps_closure
        return last

    return keeper


keeps_closure = _make_keeper()


@functools.cache
def _table():
    return jnp.arange(4.0) * 3  # @cached


def cached(x):
    return x + _table()


def once(x):
    if ONCE:
        raise ValueError(f"called {ONCE} times already")  # @once
    ONCE.append(1)
    return x


ONCE = []


# --- other times and random numbers, which two traces in a row would not show


def coarse_clock(x):
    return x + jnp.float32(time.time())  # @coarse_clock


def imported_clock(x):
    return x * (now() // 3600)  # @imported_clock


def date(x):
    return x + dt.datetime.now().year  # @date


def local_time(x):
    return x + int(time.strftime("%d"))  # @local_time


def tokens(x):
    return x + secrets.token_bytes(8)[0] % 2 + secrets.randbelow(2**20)  # @tokens


@functools.cache
def _drawn():
    return random.random()  # @drawn_once


def drawn_once(x):
    return x * _drawn()


# --- traced values in objects of a library


def averaged(x):
    return average.update(x)


average = Average()


def library_table(x):
    return x + table(x)
