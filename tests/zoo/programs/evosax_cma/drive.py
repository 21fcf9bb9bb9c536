import jax
from strategy.search import es, params, population, state


def ask(ask):
    return ask(jax.random.key(1), state(), params())


def tell(tell):
    s, candidates, history = state(), population(), []
    for number in range(4):
        s, metrics = tell(jax.random.key(number), candidates, s, params())
        history.append(metrics)
        candidates, _ = es.ask(jax.random.key(number), s, params())
    return s, history
