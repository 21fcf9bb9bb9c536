"""Functions that a build must refuse. The tests name lines by the comments `# @name`."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback


def identity(x):
    return x


def pair(a, b):
    return a, b


def keyword_only(a, *, b):
    return a, b


def positional_only(a, b=1, /):
    return a


def scaled(x, scale: float = 1.0):
    return x * scale


def sets_config(x):
    jax.config.update("jax_enable_x64", True)
    return x


number = 7

largest = max


class Box:
    @staticmethod
    def double(x):
        return x * 2

    def method(self, x):
        return x


class Lazy(type):
    @property
    def broken(cls):
        raise OSError("no weights here")


class Holder(metaclass=Lazy):
    pass


def inner(x):
    raise ValueError("bad luck: 💥")  # @inner


LIBRARY: dict = {}
DIG = "def dig(x, depth):\n    return dig(x, depth - 1) if depth else x + 'a'\n"
exec(compile(DIG, "/lib/site-packages/library.py", "exec"), LIBRARY)


def in_a_library(x):
    return LIBRARY["dig"](x, 9)  # @library


def raises(x):
    return jnp.sum(jax.jit(inner)(x))  # @raises


def exits(x):
    raise SystemExit(3)  # @exits


def endless(x):
    return endless(x)


class Mute(Exception):
    def __str__(self):
        raise RuntimeError


def mute(x):
    raise Mute


def huge(x):
    raise ValueError("start " + "x" * 10_000_000 + " end")


def surrogate(x):
    raise ValueError("lone \ud800 half")


def branch(x, flag):
    if flag:  # @branch
        return x
    return -x


def to_numpy(x):
    return np.sin(np.asarray(x))


def mask(x):
    return x[x > 0]


def count(x, n):
    return [x] * range(9)[n]


@functools.partial(jax.jit, static_argnums=1)
def static(x, n):
    return x * n


def pure(x):
    return jax.pure_callback(lambda a: np.sin(a) + 1, x, x)  # @pure


def io(x):
    return io_callback(lambda a: np.sin(a) + 1, x, x, ordered=True)  # @io


def printing(x):
    jax.debug.print("x {} {}", x, object())  # @printing
    return x


def debugging(x):
    jax.debug.callback(lambda a: print(a, 1), x)  # @debugging
    return x


def in_scan(x):
    def step(c, _):
        return pure(c), None

    return jax.lax.scan(step, x, None, length=2)[0]


@jax.custom_vjp
def custom(x):
    return pure(x)


custom.defvjp(lambda x: (x, None), lambda _, g: (g,))


def in_custom(x):
    return custom(jax.checkpoint(lambda y: y + 1)(x))


def two(x):
    return pure(x) + io(x)


state = jax.new_ref(jnp.zeros(3))


def closes(x):
    state[...] += x  # @closes
    return state[...]


def closes_in_scan(x):
    def step(c, _):
        state[...] += c
        return c, None

    return jax.lax.scan(step, x, None, length=2)[0]


def text(x):
    return "a", x


def broken_like():
    raise KeyError("weights")  # @broken_like


def text_like():
    return {"name": "abc"}


def exit_like():
    raise SystemExit("no data")


strings = ["a", "b"]


class Node:
    def __init__(self, x):
        self.x = x


hook = lambda x: x  # noqa: E731 (a def would lead back to itself by its name)
jax.tree_util.register_pytree_node(Node, lambda n: ((n.x,), hook), lambda aux, c: Node(*c))


def opaque_out(x):
    return {"a": [Node(x)]}


def opaque_deep(x):
    return {"a": [x, (None, {"b": Node(x)})]}


def tree():
    return {"w": jnp.zeros((4, 3)), "b": jnp.zeros(3)}


def use(params, x):
    return x @ params["w"] + params["b"]


def out_tree(x):
    return {"y": x, "n": x.sum()}


def compare(x):
    return x[: 3 if x.shape[0] > 3 else 1]  # @compare


def count_up(x):
    return sum(x[i] for i in range(x.shape[0]))  # @count_up


def unsafe(x):
    return jax.ffi.ffi_call("no_such_target", x)(x)


def leaks_file(x):
    with jax.named_scope(__file__):
        return jnp.sin(x)


def float0(x, tokens):
    result, pullback = jax.vjp(lambda x, tokens: x[tokens].sum(), x, tokens)
    return {"grads": pullback(result)}


def narrow(x):
    return x.astype("float6_e2m3fn").astype(x.dtype)  # @narrow
