import numpy as np
from gpregression.model import data, process, train_state


def train_step(step):
    state, losses = train_state(), []
    for _ in range(3):
        state, loss = step(state, *data())
        losses.append(loss)
    return state, losses


def predict(predict):
    _, y = data()
    grid = np.linspace(-1, 1, 20, dtype=np.float32).reshape(10, 2)
    return [predict(process(), y, grid[:count]) for count in (3, 10)]
