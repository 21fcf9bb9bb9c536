import lineax as lx
import numpy as np
from calibrate.fit import start


def fit(fit):
    t = np.linspace(0, 4, 30, dtype=np.float32)
    noise = np.random.default_rng(0).normal(size=30).astype(np.float32)
    return fit(start(), t, 3 * np.exp(-1.3 * t) + 0.5 + 0.01 * noise)


def minimise(minimise):
    return minimise(np.float32([-1.2, 1, 0.5, 2]), np.float32(100))


def solve_spd(solve):
    a = np.random.default_rng(0).normal(size=(6, 6)).astype(np.float32)
    operator = lx.MatrixLinearOperator(
        np.eye(6, dtype=np.float32) + a @ a.T, lx.positive_semidefinite_tag
    )
    return solve(operator, np.arange(6, dtype=np.float32))
