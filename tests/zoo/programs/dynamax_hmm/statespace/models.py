"""State space models of dynamax: a hidden Markov model and a linear Gaussian one."""

import jax
import jax.numpy as jnp
from dynamax.hidden_markov_model import GaussianHMM
from dynamax.linear_gaussian_ssm import LinearGaussianSSM

hmm = GaussianHMM(num_states=3, emission_dim=2)
lgssm = LinearGaussianSSM(state_dim=2, emission_dim=1)


def hmm_params():
    return hmm.initialize(jax.random.PRNGKey(0))[0]


def lgssm_params():
    return lgssm.initialize(jax.random.PRNGKey(0))[0]


def smooth(params, emissions):
    return hmm.smoother(params, emissions)


def most_likely(params, emissions):
    return jax.vmap(lambda sequence: hmm.most_likely_states(params, sequence))(emissions)


def em_step(params, emissions):
    """One step of expectation maximization over a batch of sequences."""
    stats, lls = jax.vmap(lambda sequence: hmm.e_step(params, sequence))(emissions)
    _, props = hmm.initialize(jax.random.PRNGKey(0))
    m_step_state = hmm.initialize_m_step_state(params, props)
    params, _ = hmm.m_step(params, props, stats, m_step_state)
    return params, jnp.sum(lls)


def kalman(params, emissions):
    return lgssm.filter(params, emissions)


def forecast(params, emissions):
    smoothed = lgssm.smoother(params, emissions)
    last = smoothed.smoothed_means[-1]
    return last @ params.dynamics.weights.T @ params.emissions.weights.T
