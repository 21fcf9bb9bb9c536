"""Optimization loops of jaxopt: L-BFGS, projected gradient and an implicit gradient."""

import jax
import jax.numpy as jnp
import jaxopt
from jaxopt import projection


def logistic_loss(weights, l2, data):
    x, y = data
    logits = x @ weights
    return jnp.mean(jnp.logaddexp(0.0, logits) - y * logits) + 0.5 * l2 * jnp.sum(weights**2)


lbfgs = jaxopt.LBFGS(fun=logistic_loss, maxiter=30, tol=1e-5)


def fit(weights, l2, data):
    """Return the whole result of the solver: parameters and state."""
    return lbfgs.run(weights, l2, data)


def least_squares(weights, data):
    x, y = data
    return jnp.mean((x @ weights - y) ** 2)


def portfolio(weights, data):
    """Minimize a least-squares objective on the simplex."""
    solver = jaxopt.ProjectedGradient(
        fun=least_squares, projection=projection.projection_simplex, maxiter=40, tol=1e-4
    )
    return solver.run(weights, hyperparams_proj=1.0, data=data).params


def hypergradient(weights, l2, data, holdout):
    """Differentiate the loss on held-out rows with respect to the penalty, through the solution."""

    def outer(l2):
        solution = jaxopt.GradientDescent(fun=logistic_loss, maxiter=50, implicit_diff=True)
        return logistic_loss(solution.run(weights, l2, data).params, 0.0, holdout)

    return jax.value_and_grad(outer)(l2)


def residuals(params, t, y):
    a, k, c = params
    return a * jnp.exp(-k * t) + c - y


def fit_curve(params, t, y):
    solver = jaxopt.LevenbergMarquardt(residual_fun=residuals, maxiter=20)
    result = solver.run(params, t, y)
    return result.params, result.state.value
