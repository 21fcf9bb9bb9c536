"""Distribution objects as arguments, and a chain of Hamiltonian Monte Carlo."""

import jax
import jax.numpy as jnp
from tensorflow_probability.substrates import jax as tfp

tfd, tfb = tfp.distributions, tfp.bijectors


def mixture():
    return tfd.MixtureSameFamily(
        mixture_distribution=tfd.Categorical(logits=jnp.array([0.1, 0.4, -0.2])),
        components_distribution=tfd.MultivariateNormalDiag(
            loc=jnp.arange(6.0).reshape(3, 2), scale_diag=jnp.ones((3, 2))
        ),
    )


def score(density: tfd.Distribution, x):
    """Log density of points and its gradient."""
    return density.log_prob(x), jax.grad(lambda x: density.log_prob(x).sum())(x)


def fit(density: tfd.Distribution, x) -> tfd.Distribution:
    """Take one step of gradient ascent on the parameters of a distribution."""
    grads = jax.grad(lambda density: density.log_prob(x).mean())(density)
    return jax.tree.map(lambda value, grad: value + 0.1 * grad, density, grads)


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
