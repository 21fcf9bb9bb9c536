"""optimistix and lineax: curve fitting, minimizing, a fixed point, and linear solves."""

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import optimistix as optx


class Decay(eqx.Module):
    amplitude: jax.Array
    rate: jax.Array
    offset: jax.Array

    def __call__(self, t):
        return self.amplitude * jnp.exp(-self.rate * t) + self.offset


def residuals(model, data):
    t, y = data
    return jax.vmap(model)(t) - y


def start():
    return Decay(jnp.array(1.0), jnp.array(0.5), jnp.array(0.0))


def fit(model, t, y):
    """Fit with Levenberg-Marquardt; return the model, whether it converged, and the steps."""
    solver = optx.LevenbergMarquardt(rtol=1e-5, atol=1e-6)
    solution = optx.least_squares(residuals, solver, model, args=(t, y), max_steps=64, throw=False)
    return solution.value, solution.result == optx.RESULTS.successful, solution.stats


def rosenbrock(x, scale):
    return jnp.sum(scale * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def minimise(x, scale):
    solver = optx.BFGS(rtol=1e-4, atol=1e-5)
    solution = optx.minimise(rosenbrock, solver, x, args=scale, max_steps=512, throw=False)
    return solution.value, solution.stats["num_steps"]


def solve_spd(operator, vector):
    """Solve with a tagged operator that the caller made."""
    solution = lx.linear_solve(operator, vector, lx.CG(rtol=1e-5, atol=1e-5), throw=False)
    direct = lx.linear_solve(operator, vector, lx.Cholesky())
    return solution.value, direct.value, operator.mv(direct.value)


def example_operator():
    return lx.MatrixLinearOperator(jnp.eye(6), lx.positive_semidefinite_tag)
