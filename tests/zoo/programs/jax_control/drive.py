import numpy as np
from control.plants import make_plant


def discretize(discretize):
    return discretize(make_plant())


def regulator(regulator):
    return regulator(make_plant())


def modes(modes):
    return modes(make_plant())


def frequency_response(response):
    return response(make_plant(), 1j * np.linspace(0.1, 5, 16))


def swing_up(swing_up):
    start, controls = np.array([1.0, 0.0]), np.zeros((30, 1))
    first, _ = swing_up(start, controls)
    return swing_up(start, first.controls, iterations=10, dt=0.02)


def lorenz(lorenz):
    return lorenz(np.ones(3), np.linspace(0, 1, 50), 28.0)


def sensitivity(sensitivity):
    return sensitivity(np.linspace(0.1, 1, 4), np.zeros(4))


def poisson(poisson):
    return poisson(np.random.default_rng(0).normal(size=(32, 32)))


def bessel_gradient(gradient):
    return gradient(np.linspace(0.2, 2, 5), 1.5)
