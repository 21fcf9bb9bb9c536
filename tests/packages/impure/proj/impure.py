"""Functions whose program hangs on more than their arguments. Tests name lines by `# @name`."""

import datetime as dt
import functools
import itertools
import random
import secrets
import time
from time import time as now

import jax
import jax.numpy as jnp
import numpy as np

from proj.installed import Average, Guide, Sequence, table

CALLS = 0
TICKETS = itertools.count()
SEEN = []
CACHE = {}
GENERATOR = np.random.default_rng(0)
LAST = {"value": None}


def clock(x):
    return x + (time.perf_counter_ns() % 1009)  # @clock


def literal(x):
    return x * random.random()  # @literal


def array(x):
    noise = np.random.rand(4).astype("float32")
    return jnp.where(x > 0, noise, x)  # @array


def generator(x):
    return x + GENERATOR.normal()  # @generator


@jax.jit
def _inner(x):
    return x - random.random()  # @in_jit


def in_jit(x):
    return _inner(x) * 2


def in_scan(x):
    def body(carry, y):
        return carry + y * random.random(), y  # @in_scan

    return jax.lax.scan(body, 0.0, x)


def counter(x):
    global CALLS
    CALLS += 1
    return x * CALLS  # @counter


def ticket(x):
    return x + next(TICKETS)  # @ticket


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


def returned(x):  # @returned
    return x, random.getrandbits(30)


def tree(x):  # @tree
    CALLED[0] += 1
    return {f"step{CALLED[0]}": x}


CALLED = [0]


def operation(x):
    SWITCH.reverse()
    return SWITCH[0](x)  # @operation


SWITCH = [jnp.sin, jnp.cos]


def order(x):
    parts = [x * 2, x * 3]
    FLIP.reverse()
    return parts[FLIP[0]] - parts[FLIP[1]]  # @order


FLIP = [0, 1]


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


def default(x, kept=[0]):  # noqa: B006 (the point of it)
    kept[0] += 1
    return x * kept[0]  # @default


class Model:
    made = 0

    def __init__(self):
        self.uses = 0

    def uses_self(self, x):
        self.uses += 1
        return x * self.uses  # @uses_self

    def uses_class(self, x):
        Model.made += 1
        return x * Model.made  # @uses_class

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


def keeps_by_shape(x):
    BY_SHAPE[x.shape, x.dtype] = x
    return x


def keeps_by_size(x):
    BY_SHAPE[x.shape] = x * 3  # @keeps_by_size
    return x


def keeps_in_error(x):
    ERRORS.append(ValueError(x))
    return x


BY_SHAPE, ERRORS = {}, []


def keeps_argument(x):
    global ARGUMENT
    ARGUMENT = x
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


@functools.lru_cache(maxsize=4)
def _scales(size):
    return {"half": [jnp.ones(size) / 2]}  # @cached_call


def cached_call(x):
    return x * _scales(x.shape[0])["half"][0]


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


def argument_kept(x):
    FIRST.append(x)
    return FIRST[0] * 2


FIRST = []


# --- traced values in objects of a library


def averaged(x):
    return average.update(x)


average = Average()


def sequence(x):
    return x * numbers.next(x)


numbers = Sequence(jnp.float32(1))


class OwnGuide(Guide):
    pass


def own_guide(x):
    return own.start(x)


own = OwnGuide()


def guide_in_list(x):
    if not GUIDES:
        GUIDES.append(Guide())
    return GUIDES[0].start(x)


GUIDES = []


def library_table(x):
    return x + table(x)
