import numpy as np
from shallowwater.model import grid, state


def step(step):
    s = state()
    for _ in range(3):
        s = step(s)
    return s


def forecast(forecast):
    return forecast(state())


def error_gradient(gradient):
    return gradient(state(), np.zeros((1, *grid.nodal_shape), np.float32))
