import numpy as np
from statespace.models import hmm_params, lgssm_params


def emissions(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def smooth(smooth):
    return smooth(hmm_params(), emissions(12, 2))


def most_likely(most_likely):
    return [most_likely(hmm_params(), emissions(count, 12, 2)) for count in (1, 3)]


def em_step(step):
    params, history = hmm_params(), []
    for _ in range(3):
        params, ll = step(params, emissions(3, 12, 2))
        history.append(ll)
    return params, history


def kalman(kalman):
    return kalman(lgssm_params(), emissions(10, 1))


def forecast(forecast):
    return forecast(lgssm_params(), emissions(10, 1))
