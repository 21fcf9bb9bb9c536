"""distrax: a policy that returns a distribution, a coupling flow, and a hidden Markov model."""

import distrax
import haiku as hk
import jax
import jax.numpy as jnp


def network(observation):
    hidden = hk.nets.MLP([16, 16], activate_final=True)(observation)
    mean = hk.Linear(3)(hidden)
    scale = jax.nn.softplus(hk.Linear(3)(hidden)) + 1e-3
    return distrax.Independent(
        distrax.Transformed(distrax.Normal(mean, scale), distrax.Tanh()),
        reinterpreted_batch_ndims=1,
    )


policy_model = hk.without_apply_rng(hk.transform(network))


def make_params():
    return policy_model.init(jax.random.PRNGKey(0), jnp.zeros((1, 4)))


def policy(params, observation):
    """Return the distribution of actions."""
    return policy_model.apply(params, observation)


def example_distribution():
    return policy(make_params(), jnp.zeros((2, 4)))


def act(distribution, key):
    """Take a distribution, and return actions with their log probabilities."""
    return distribution.sample_and_log_prob(seed=key)


def density(x):
    def flow():
        bijectors = []
        for place in range(3):
            mask = jnp.arange(4) % 2 == place % 2

            def conditioner(y):
                net = hk.nets.MLP([16, 4 * 13], w_init=hk.initializers.RandomNormal(0.1))
                return net(y).reshape(*y.shape[:-1], 4, 13)

            bijectors.append(
                distrax.MaskedCoupling(
                    mask,
                    conditioner,
                    lambda params: distrax.RationalQuadraticSpline(params, -3.0, 3.0),
                )
            )
        base = distrax.MultivariateNormalDiag(jnp.zeros(4), jnp.ones(4))
        return distrax.Transformed(base, distrax.Inverse(distrax.Chain(bijectors))).log_prob(x)

    model = hk.without_apply_rng(hk.transform(flow))
    return model.apply(model.init(jax.random.PRNGKey(0)))


def hmm_posterior(logits, means, observations):
    model = distrax.HMM(
        trans_dist=distrax.Categorical(logits=logits),
        init_dist=distrax.Categorical(logits=jnp.zeros(3)),
        obs_dist=distrax.Normal(means, jnp.ones(3)),
    )
    _, _, marginals, log_prob = model.forward_backward(observations)
    return marginals, log_prob, model.viterbi(observations)
