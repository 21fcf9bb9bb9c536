import numpy as np


def signal():
    return np.random.default_rng(0).normal(size=(8, 15))


def analyze(analyze):
    return analyze(signal())


def smooth(smooth):
    return smooth(signal().astype(np.complex128), np.float64(0.2))


def fit_step(step):
    flm, losses = np.zeros((8, 15), np.complex128), []
    for _ in range(3):
        flm, loss = step(flm, signal().astype(np.complex128), np.float64(0.5))
        losses.append(loss)
    return flm, losses
