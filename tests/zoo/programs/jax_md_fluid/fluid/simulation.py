"""A Lennard-Jones fluid with a neighbor list and a Nose-Hoover thermostat."""

import jax
import jax.numpy as jnp
from jax_md import energy, simulate, space

SIDE, COUNT = 6.0, 27
displacement, shift = space.periodic(SIDE)
neighbor_fn, energy_fn = energy.lennard_jones_neighbor_list(
    displacement, SIDE, r_onset=1.6, r_cutoff=2.0, dr_threshold=0.3
)
init_fn, apply_fn = simulate.nvt_nose_hoover(energy_fn, shift, dt=2e-3, kT=0.5)


def positions():
    grid = jnp.arange(3) * (SIDE / 3)
    lattice = jnp.stack(jnp.meshgrid(grid, grid, grid), axis=-1).reshape(COUNT, 3)
    return lattice + 0.1 * jax.random.normal(jax.random.key(0), lattice.shape)


def neighbors():
    """Allocate a neighbor list; its size depends on the positions' values."""
    return neighbor_fn.allocate(positions())


def state():
    return init_fn(jax.random.key(1), positions(), neighbor=neighbors())


def potential(positions, neighbors):
    neighbors = neighbors.update(positions)
    return jax.value_and_grad(energy_fn)(positions, neighbor=neighbors)


def simulate_steps(state, neighbors):
    """Take ten steps, and keep the neighbor list up to date."""

    def step(_, carry):
        state, neighbors = carry
        state = apply_fn(state, neighbor=neighbors)
        return state, neighbors.update(state.position)

    return jax.lax.fori_loop(0, 10, step, (state, neighbors))
