"""A small CNN with batch norm and dropout, trained as in flax's own examples."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax.training import train_state


class CNN(nn.Module):
    width: int = 8

    @nn.compact
    def __call__(self, x, train: bool):
        for factor in (1, 2):
            x = nn.Conv(self.width * factor, (3, 3), use_bias=False)(x)
            x = nn.BatchNorm(use_running_average=not train, momentum=0.9)(x)
            x = nn.relu(x)
            x = nn.avg_pool(x, (2, 2), strides=(2, 2))
        x = x.reshape((x.shape[0], -1))
        x = nn.Dense(32)(x)
        x = nn.gelu(x)
        x = nn.Dropout(0.1, deterministic=not train)(x)
        return nn.Dense(10)(x)


class TrainState(train_state.TrainState):
    batch_stats: Any


def create_state():
    model = CNN()
    variables = model.init(jax.random.key(0), jnp.zeros((1, 28, 28, 1)), train=False)
    schedule = optax.warmup_cosine_decay_schedule(0.0, 1e-3, 10, 1000)
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule, weight_decay=1e-4))
    return TrainState.create(
        apply_fn=model.apply,
        params=variables["params"],
        tx=tx,
        batch_stats=variables["batch_stats"],
    )


def train_step(state: TrainState, images, labels, key):
    key = jax.random.fold_in(key, state.step)

    def loss_fn(params):
        variables = {"params": params, "batch_stats": state.batch_stats}
        logits, updates = state.apply_fn(
            variables, images, train=True, rngs={"dropout": key}, mutable=["batch_stats"]
        )
        loss = optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
        return loss, (logits, updates)

    (loss, (logits, updates)), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
    state = state.apply_gradients(grads=grads, batch_stats=updates["batch_stats"])
    accuracy = jnp.mean(logits.argmax(-1) == labels)
    return state, {"loss": loss, "accuracy": accuracy}


def predict(state: TrainState, images):
    variables = {"params": state.params, "batch_stats": state.batch_stats}
    return jax.nn.softmax(state.apply_fn(variables, images, train=False))
