import numpy as np
from galaxy.draw import profile

PARAMETERS = {"half_light_radius": 1.0, "flux": 50.0, "g1": 0.1, "g2": 0.0}


def draw(draw):
    return draw(profile()).array


def observe(observe):
    return observe(*map(np.float32, PARAMETERS.values()))


def fit_gradient(gradient):
    parameters = {name: np.float32(value) for name, value in PARAMETERS.items()}
    return gradient(parameters, np.zeros((16, 16), np.float32))
