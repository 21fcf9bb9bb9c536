"""Distributions of given parameters, and a chain of Hamiltonian Monte Carlo."""

import jax
import jax.numpy as jnp
from tensorflow_probability.substrates import jax as tfp

tfd, tfb = tfp.distributions, tfp.bijectors


def parameters():
    return {
        "logits": jnp.array([0.1, 0.4, -0.2]),
        "loc": jnp.arange(6.0).reshape(3, 2),
        "scale": jnp.ones((3, 2)),
    }


def mixture(params):
    return tfd.MixtureSameFamily(
        mixture_distribution=tfd.Categorical(logits=params["logits"]),
        components_distribution=tfd.MultivariateNormalDiag(
            loc=params["loc"], scale_diag=params["scale"]
        ),
    )


def score(params, x):
    """Log density of points and its gradient."""
    density = mixture(params)
    return density.log_prob(x), jax.grad(lambda x: density.log_prob(x).sum())(x)


def fit(params, x):
    """Take one step of gradient ascent on the parameters of a distribution."""
    grads = jax.grad(lambda params: mixture(params).log_prob(x).mean())(params)
    return jax.tree.map(lambda value, grad: value + 0.1 * grad, params, grads)


def hmc(key, observed):
    """Sample a location and a positive scale of normal data."""
    joint = tfd.JointDistributionNamedAutoBatched(
        {
            "loc": tfd.Normal(0.0, 2.0),
            "scale": tfd.HalfNormal(1.0),
            "y": lambda loc, scale: tfd.Sample(tfd.Normal(loc, scale), observed.shape[0]),
        }
    )

    def log_prob(loc, scale):
        return joint.log_prob(loc=loc, scale=scale, y=observed)

    kernel = tfp.mcmc.TransformedTransitionKernel(
        tfp.mcmc.HamiltonianMonteCarlo(log_prob, step_size=0.1, num_leapfrog_steps=3),
        bijector=[tfb.Identity(), tfb.Softplus()],
    )
    samples, accepted = tfp.mcmc.sample_chain(
        num_results=10,
        num_burnin_steps=5,
        current_state=[jnp.float32(0.1), jnp.float32(1.0)],
        kernel=kernel,
        trace_fn=lambda _, results: results.inner_results.is_accepted,
        seed=key,
    )
    return samples, accepted
