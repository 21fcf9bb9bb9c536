import numpy as np

L2 = np.float32(0.1)


def rows(count, seed=0):
    x = np.random.default_rng(seed).normal(size=(count, 4)).astype(np.float32)
    return x, (x @ np.array([1, -2, 0.5, 0], np.float32) > 0).astype(np.float32)


def start():
    return np.zeros(4, np.float32)


def fit(fit):
    return fit(start(), L2, rows(16))


def portfolio(portfolio):
    return portfolio(np.full(4, 0.25, np.float32), rows(16))


def hypergradient(gradient):
    return gradient(start(), L2, rows(16), rows(8, 1))


def fit_curve(fit):
    t = np.linspace(0, 3, 20, dtype=np.float32)
    return fit(np.array([1, 1, 0], np.float32), t, 2 * np.exp(-0.7 * t) + np.float32(0.3))
