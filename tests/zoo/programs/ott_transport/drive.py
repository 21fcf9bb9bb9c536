import numpy as np
from transport.solve import geometry


def points(count, dims, seed):
    return np.random.default_rng(seed).uniform(size=(count, dims)).astype(np.float32)


def solve(solve):
    a, b = np.full(6, 1 / 6, np.float32), np.full(9, 1 / 9, np.float32)
    out = solve(geometry(), a, b)
    return out, out.matrix, out.reg_ot_cost


def cost(cost):
    return [cost(points(count, 2, 1), points(count, 2, 2)) for count in (4, 8)]


def align(align):
    return align(points(6, 2, 1), points(7, 3, 2))
