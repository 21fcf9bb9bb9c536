"""Functions that tests of call logs call: a module names them, or doesn't."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def plain(x: Any) -> Any:
    return x * 2


@functools.partial(jax.jit, static_argnames="k", donate_argnames="x", keep_unused=True)
def with_options(x: Any, k: Any = 3, *, y: Any = None) -> Any:
    return x * 2


@jax.jit
def nested(x: Any) -> Any:
    return plain(x) + jnp.sin(x)


@jax.custom_vjp
def with_rule(x: Any) -> Any:
    return x * 3


with_rule.defvjp(lambda x: (x * 3, x), lambda _, g: (g * 3,))
ruled = jax.jit(with_rule)


@jax.jit
def gradient(x: Any) -> Any:
    return jax.grad(lambda x: with_rule(x).sum())(x)


@jax.jit
def with_effects(x: Any) -> Any:
    jax.debug.callback(lambda _: None, x)
    return jax.pure_callback(lambda x: np.asarray(x) * 2, x, x)


@jax.jit
def mixed(a: Any, b: Any, key: Any) -> Any:
    return a * b + jax.random.normal(key, ())


@jax.jit
def variadic(*values: Any) -> Any:
    return sum(values)


def scaled(factor: Any, x: Any) -> Any:
    return factor * x


def first_leaf(tree: Any) -> Any:
    return jax.tree.leaves(tree)[0] + 1


def made(factor: float) -> Any:
    @jax.jit
    def closure(x: Any) -> Any:
        return factor * x

    return closure


class Model:
    def step(self, x: Any) -> Any:
        return x + 1

    @functools.partial(jax.jit, static_argnums=0)
    def method(self, x: Any) -> Any:
        return x + 2


MODEL = Model()
step = jax.jit(MODEL.step)
named_lambda = jax.jit(lambda x: x + 4)
twice = jax.jit(functools.partial(scaled, 2.0))
mapped = jax.jit(jax.vmap(scaled))
raising = jax.jit(lambda x: 1 / 0)
