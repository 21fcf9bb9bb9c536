"""A Hodgkin-Huxley cell of jaxley: simulation, and a training step on its conductances."""

import jax
import jax.numpy as jnp
import jaxley as jx
import optax
from jaxley.channels import HH

compartment = jx.Compartment()
cell = jx.Cell(jx.Branch(compartment, ncomp=2), parents=[-1, 0, 0])
cell.insert(HH())
cell.branch(0).comp(0).record("v", verbose=False)
cell.branch(0).make_trainable("HH_gNa", verbose=False)
cell.branch(1).make_trainable("HH_gK", verbose=False)
optimizer = optax.adam(0.01)


def params():
    return cell.get_parameters()


def train_state():
    return params(), optimizer.init(params())


def simulate(params, amplitude):
    current = jnp.where(jnp.arange(80) > 20, amplitude, 0.0)
    stimuli = cell.branch(0).comp(0).data_stimulate(current)
    return jx.integrate(cell, params=params, data_stimuli=stimuli, delta_t=0.025)


def train_step(state, amplitude, target):
    params, opt_state = state

    def loss(params):
        return jnp.mean((simulate(params, amplitude) - target) ** 2)

    value, grads = jax.value_and_grad(loss)(params)
    updates, opt_state = optimizer.update(grads, opt_state)
    return (optax.apply_updates(params, updates), opt_state), value
