"""A small ResNet of dm-haiku with momentum SGD, as in haiku's ImageNet example."""

from typing import NamedTuple

import haiku as hk
import jax
import jax.numpy as jnp
import optax


class State(NamedTuple):
    params: hk.Params
    batch_stats: hk.State
    opt_state: optax.OptState


def forward(images, is_training):
    net = hk.nets.ResNet(
        blocks_per_group=(1, 1, 1, 1),
        num_classes=10,
        resnet_v2=True,
        channels_per_group=(8, 16, 16, 32),
        bottleneck=False,
    )
    return net(images, is_training=is_training)


model = hk.without_apply_rng(hk.transform_with_state(forward))
optimizer = optax.chain(
    optax.trace(decay=0.9, nesterov=True),
    optax.scale_by_schedule(optax.cosine_decay_schedule(0.1, 1000)),
    optax.scale(-1.0),
)


def initial_state():
    images = jnp.zeros((1, 32, 32, 3))
    params, batch_stats = model.init(jax.random.key(0), images, is_training=True)
    return State(params, batch_stats, optimizer.init(params))


def loss_fn(params, batch_stats, batch):
    logits, batch_stats = model.apply(params, batch_stats, batch["images"], is_training=True)
    labels = jax.nn.one_hot(batch["labels"], 10)
    loss = optax.softmax_cross_entropy(logits, labels).mean()
    weights = hk.data_structures.filter(lambda module, *_: "batchnorm" not in module, params)
    penalty = 0.5 * sum(jnp.sum(jnp.square(w)) for w in jax.tree.leaves(weights))
    return loss + 1e-4 * penalty, (loss, batch_stats)


def train_step(state, batch):
    grads, (loss, batch_stats) = jax.grad(loss_fn, has_aux=True)(
        state.params, state.batch_stats, batch
    )
    updates, opt_state = optimizer.update(grads, state.opt_state)
    params = optax.apply_updates(state.params, updates)
    return State(params, batch_stats, opt_state), {"loss": loss}


def predict(state, images):
    logits, _ = model.apply(state.params, state.batch_stats, images, is_training=False)
    return jnp.argmax(logits, axis=-1), jax.nn.log_softmax(logits)
