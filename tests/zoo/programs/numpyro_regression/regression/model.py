"""A hierarchical logistic regression: variational inference, HMC and predictions."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import HMC, NUTS, SVI, Predictive, Trace_ELBO, autoguide
from numpyro.infer.initialization import init_to_median

GROUPS, ROWS, COLUMNS = 3, 24, 2


def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, COLUMNS)).astype(np.float32)
    group = (np.arange(ROWS) % GROUPS).astype(np.int32)
    return x, group, (x[:, 0] + 0.3 * group > 0.2).astype(np.int32)


def model(x, group, y=None):
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    with numpyro.plate("groups", GROUPS):
        intercept = numpyro.sample("intercept", dist.Normal(0.0, scale))
    weights = numpyro.sample("weights", dist.Normal(jnp.zeros(COLUMNS), 1.0).to_event(1))
    logits = intercept[group] + x @ weights
    with numpyro.plate("rows", x.shape[0]):
        numpyro.sample("y", dist.Bernoulli(logits=logits), obs=y)


guide = autoguide.AutoNormal(model, init_loc_fn=init_to_median)
svi = SVI(model, guide, numpyro.optim.Adam(0.01), Trace_ELBO())
nuts = NUTS(model, max_tree_depth=4)
hmc = HMC(model, num_steps=3)


def svi_state():
    return svi.init(jax.random.PRNGKey(0), *data())


def svi_update(state, x, group, y):
    return svi.update(state, x, group, y)


def posterior_mean(params, x, group, key):
    predict = Predictive(model, guide=guide, params=params, num_samples=8)
    return predict(key, x, group)["y"].mean(0)


fitted = SVI(model, autoguide.AutoMultivariateNormal(model), numpyro.optim.Adam(0.01), Trace_ELBO())


def svi_fit(key, x, group, y):
    # The guide is set up while this is traced, and keeps its first parameters.
    state = fitted.init(key, x, group, y)
    state, losses = jax.lax.scan(lambda s, _: fitted.update(s, x, group, y), state, length=20)
    return fitted.get_params(state), losses


def guide_params():
    return svi.get_params(svi_state())


def hmc_state():
    return hmc.init(jax.random.PRNGKey(1), 10, model_args=data())


def hmc_step(state, x, group, y):
    return hmc.sample(state, (x, group, y), {})


def nuts_state():
    return nuts.init(jax.random.PRNGKey(1), 10, model_args=data())


def nuts_step(state, x, group, y):
    return nuts.sample(state, (x, group, y), {})
