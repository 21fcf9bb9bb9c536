"""A pendulum that is swung up by an iterative LQR, and an adaptive ODE solve."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental.ode import odeint
from jax.scipy.linalg import cho_factor, cho_solve

jax.config.update("jax_enable_x64", True)


class Trajectory(NamedTuple):
    states: jax.Array
    controls: jax.Array
    cost: jax.Array


def pendulum(state, control, dt):
    angle, speed = state
    return jnp.array(
        [angle + dt * speed, speed + dt * (9.81 * jnp.sin(angle) + control[0] - 0.1 * speed)]
    )


def running_cost(state, control):
    return 0.5 * state @ state + 0.05 * control @ control


def simulate(start, policy, inputs, dt):
    """Roll out a policy, a function of the state and of one of the inputs."""

    def step(state, each):
        control = policy(state, each)
        return pendulum(state, control, dt), (state, control)

    end, (states, controls) = jax.lax.scan(step, start, inputs)
    cost = jax.vmap(running_cost)(states, controls).sum() + 5.0 * end @ end
    return Trajectory(jnp.concatenate([states, end[None]]), controls, cost)


def backward_pass(trajectory, dt):
    """Return the feed-forward terms and the gains of the locally optimal policy."""
    states, controls = trajectory.states[:-1], trajectory.controls
    dynamics = jax.vmap(jax.jacobian(partial(pendulum, dt=dt), (0, 1)))(states, controls)
    gradients = jax.vmap(jax.grad(running_cost, (0, 1)))(states, controls)
    hessians = jax.vmap(jax.hessian(running_cost, (0, 1)))(states, controls)

    def step(value, each):
        (fx, fu), (lx, lu), ((lxx, _), (_, luu)) = each
        v, vv = value
        qx, qu = lx + fx.T @ v, lu + fu.T @ v
        qxx, qux, quu = lxx + fx.T @ vv @ fx, fu.T @ vv @ fx, luu + fu.T @ vv @ fu
        factor = cho_factor(quu + 1e-6 * jnp.eye(1))
        k, gain = -cho_solve(factor, qu), -cho_solve(factor, qux)
        return (qx + qux.T @ k, qxx + qux.T @ gain), (k, gain)

    last = 10.0 * trajectory.states[-1], 10.0 * jnp.eye(2)
    _, found = jax.lax.scan(step, last, (dynamics, gradients, hessians), reverse=True)
    return found


@partial(jax.jit, static_argnames=("iterations", "dt"))
def swing_up(start, controls, *, iterations=10, dt=0.05):
    """Improve the controls; return the last trajectory and the cost of each iteration."""

    def improve(old, _):
        ks, gains = backward_pass(old, dt)
        inputs = old.states[:-1], old.controls, ks, gains

        def along(rate):
            def policy(state, each):
                reference, control, k, gain = each
                return control + rate * k + gain @ (state - reference)

            return simulate(start, policy, inputs, dt)

        tried = jax.vmap(along)(jnp.array([1.0, 0.5, 0.25, 0.1]))
        best = jax.tree.map(lambda each: each[jnp.argmin(tried.cost)], tried)
        return jax.lax.cond(best.cost < old.cost, lambda: best, lambda: old), best.cost

    first = simulate(start, lambda _, control: control, controls, dt)
    return jax.lax.scan(improve, first, None, length=iterations)


def lorenz(start, times, rho):
    def derivative(state, t, rho):
        x, y, z = state
        return jnp.array([10.0 * (y - x), x * (rho - z) - y, x * y - 8 / 3 * z])

    return odeint(derivative, start, times, rho, rtol=1e-8, atol=1e-8)
