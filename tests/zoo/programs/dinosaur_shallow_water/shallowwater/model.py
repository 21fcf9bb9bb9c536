"""A spectral shallow-water model on the sphere, as dinosaur's users set it up."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from dinosaur import (
    coordinate_systems,
    layer_coordinates,
    scales,
    shallow_water,
    shallow_water_states,
    spherical_harmonic,
    time_integration,
    units,
)

DT = 1e-3
grid = spherical_harmonic.Grid.with_wavenumbers(16)
coords = coordinate_systems.CoordinateSystem(grid, layer_coordinates.LayerCoordinates(1))
specs = units.SimUnits.from_si()
density = specs.nondimensionalize(np.ones(1) * scales.WATER_DENSITY)
equation = shallow_water.ShallowWaterEquations(
    coords, specs, None, np.ones(1) * 0.1, densities=density
)
step_fn = time_integration.step_with_filters(
    time_integration.imex_rk_sil3(equation, DT),
    [time_integration.exponential_step_filter(grid, DT)],
)


def state():
    latitude = np.arccos(grid.cos_lat)
    velocity = jnp.stack([np.cos(3 * latitude) / 5])
    return shallow_water_states.multi_layer(velocity, density, coords)


def step(state: shallow_water.State) -> shallow_water.State:
    return time_integration.repeated(step_fn, 5)(state)


def forecast(state: shallow_water.State):
    """Return the last state, and the potential on the grid every few steps."""
    post = functools.partial(shallow_water.state_to_nodal, grid=grid)
    last, path = time_integration.trajectory_from_step(
        step_fn, outer_steps=3, inner_steps=2, post_process_fn=post
    )(state)
    return last, path.potential


def error_gradient(state: shallow_water.State, target):
    """Differentiate a forecast's error with respect to its initial state."""

    def error(state):
        last = time_integration.repeated(step_fn, 3)(state)
        return jnp.mean((grid.to_nodal(last.potential) - target) ** 2)

    return jax.value_and_grad(error)(state)
