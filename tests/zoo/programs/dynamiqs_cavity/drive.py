import numpy as np
from cavity.evolve import coherent

OMEGA = np.float32(1.5)


def decay(decay):
    return decay(coherent(), OMEGA, np.float32(0.2))


def drive_gradient(gradient):
    return gradient(np.array([0.5, 0.3, -0.2, 0.1], np.float32), OMEGA)


def evolve(evolve):
    result = evolve(coherent(), OMEGA)
    return result.states, result.final_state
