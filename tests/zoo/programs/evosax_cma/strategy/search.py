"""CMA-ES on a small policy: ask, evaluate, tell, with the state fed back."""

import jax
import jax.numpy as jnp
from evosax.algorithms import CMA_ES

solution = {"w": jnp.zeros((3, 2)), "b": jnp.zeros(2)}
es = CMA_ES(population_size=8, solution=solution)


def params():
    return es.default_params


def state():
    return es.init(jax.random.key(0), solution, es.default_params)


def population():
    return es.ask(jax.random.key(0), state(), params())[0]


def fitness(candidate):
    inputs = jnp.linspace(-1, 1, 12).reshape(4, 3)
    outputs = jnp.tanh(inputs @ candidate["w"] + candidate["b"])
    return jnp.mean((outputs - jnp.array([0.3, -0.5])) ** 2)


def ask(key, state, params):
    return es.ask(key, state, params)


def tell(key, population, state, params):
    return es.tell(key, population, jax.vmap(fitness)(population), state, params)
