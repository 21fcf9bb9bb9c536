import jax
from regression.model import data, guide_params, hmc_state, nuts_state, svi_state


def repeat(step, state):
    for _ in range(3):
        state = step(state, *data())
    return state


def svi_update(update):
    state, losses = svi_state(), []
    for _ in range(3):
        state, loss = update(state, *data())
        losses.append(loss)
    return state, losses


def svi_fit(fit):
    return fit(jax.random.PRNGKey(3), *data())


def posterior_mean(predict):
    x, group, _ = data()
    return predict(guide_params(), x, group, jax.random.PRNGKey(2))


def hmc_step(step):
    return repeat(step, hmc_state())


def nuts_step(step):
    return repeat(step, nuts_state())
