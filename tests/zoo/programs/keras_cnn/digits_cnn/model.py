"""A Keras 3 model on JAX: inference, and the stateless train step of Keras' own guide."""

import os

os.environ["KERAS_BACKEND"] = "jax"

import jax
import keras
from keras import layers

keras.utils.set_random_seed(0)
model = keras.Sequential(
    [
        layers.Input((16, 16, 1)),
        layers.Rescaling(1 / 255),
        layers.Conv2D(8, 3, strides=2, padding="same"),
        layers.BatchNormalization(),
        layers.Activation("gelu"),
        layers.GlobalAveragePooling2D(),
        layers.Dropout(0.2),
        layers.Dense(10),
    ]
)
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = keras.optimizers.AdamW(keras.optimizers.schedules.CosineDecay(1e-3, 100))
optimizer.build(model.trainable_variables)


def values(variables):
    return [variable.value for variable in variables]


def initial_state():
    return (
        values(model.trainable_variables),
        values(model.non_trainable_variables),
        values(optimizer.variables),
    )


def weights():
    return {"trainable": initial_state()[0], "non_trainable": initial_state()[1]}


def compute_loss(trainable, non_trainable, x, y):
    logits, non_trainable = model.stateless_call(trainable, non_trainable, x, training=True)
    return loss_fn(y, logits), non_trainable


def train_step(state, x, y):
    trainable, non_trainable, optimizer_variables = state
    grad_fn = jax.value_and_grad(compute_loss, has_aux=True)
    (loss, non_trainable), grads = grad_fn(trainable, non_trainable, x, y)
    trainable, optimizer_variables = optimizer.stateless_apply(
        optimizer_variables, grads, trainable
    )
    return loss, (trainable, non_trainable, optimizer_variables)


def predict(weights, x):
    logits, _ = model.stateless_call(weights["trainable"], weights["non_trainable"], x)
    return keras.ops.softmax(logits)
