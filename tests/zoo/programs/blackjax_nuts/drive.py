import jax
from banana.sample import nuts_state, start


def nuts_step(step):
    state, infos = nuts_state(), []
    for number in range(3):
        state, info = step(jax.random.key(number), state)
        infos.append(info)
    return state, infos


def chain(chain):
    return chain(jax.random.key(0), nuts_state())


def adapt(adapt):
    return adapt(jax.random.key(0), start())
