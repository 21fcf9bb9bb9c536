"""Optimal transport between point clouds: Sinkhorn, its gradient, and Gromov-Wasserstein."""

import jax
import jax.numpy as jnp
from ott.geometry import costs, pointcloud
from ott.problems.linear import linear_problem
from ott.problems.quadratic import quadratic_problem
from ott.solvers.linear import sinkhorn
from ott.solvers.quadratic import gromov_wasserstein


def geometry():
    keys = jax.random.split(jax.random.key(0))
    x, y = jax.random.uniform(keys[0], (6, 2)), jax.random.uniform(keys[1], (9, 2))
    return pointcloud.PointCloud(x, y, epsilon=0.1)


def solve(geom: pointcloud.PointCloud, a, b) -> sinkhorn.SinkhornOutput:
    """Return the whole solution, from which users read the matrix and the cost."""
    return sinkhorn.Sinkhorn()(linear_problem.LinearProblem(geom, a, b))


def cost(x, y):
    def reg_ot_cost(x, y):
        geom = pointcloud.PointCloud(x, y, cost_fn=costs.PNormP(1.5), epsilon=0.05)
        out = sinkhorn.Sinkhorn(max_iterations=200)(linear_problem.LinearProblem(geom))
        return out.reg_ot_cost, out.converged

    (value, converged), gradient = jax.value_and_grad(reg_ot_cost, has_aux=True)(x, y)
    return value, gradient, converged


def align(x, y):
    """Match point clouds of different dimensions."""
    problem = quadratic_problem.QuadraticProblem(
        pointcloud.PointCloud(x, epsilon=0.1), pointcloud.PointCloud(y, epsilon=0.1)
    )
    solver = gromov_wasserstein.GromovWasserstein(
        linear_solver=sinkhorn.Sinkhorn(max_iterations=50), epsilon=0.1, max_iterations=5
    )
    out = solver(problem)
    return out.matrix, out.reg_gw_cost, jnp.sum(out.errors > 0) if out.errors is not None else 0
