"""A convolutional network of flax nnx: trained and evaluated in turns, and tuned with LoRA."""

from functools import partial

import optax
from flax import nnx


class CNN(nnx.Module):
    def __init__(self, rngs: nnx.Rngs):
        self.conv1 = nnx.Conv(1, 8, kernel_size=(3, 3), rngs=rngs)
        # No bias: batch norm subtracts it again.
        self.conv2 = nnx.Conv(8, 16, kernel_size=(3, 3), use_bias=False, rngs=rngs)
        self.norm = nnx.BatchNorm(16, rngs=rngs)
        self.pool = partial(nnx.avg_pool, window_shape=(2, 2), strides=(2, 2))
        self.dropout = nnx.Dropout(0.1)
        self.linear1 = nnx.Linear(7 * 7 * 16, 32, rngs=rngs)
        self.linear2 = nnx.Linear(32, 10, rngs=rngs)

    def __call__(self, images, rngs: nnx.Rngs | None = None):
        x = self.pool(nnx.relu(self.conv1(images)))
        x = self.pool(nnx.relu(self.norm(self.conv2(x))))
        x = self.dropout(x.reshape(x.shape[0], -1), rngs=rngs)
        return self.linear2(nnx.relu(self.linear1(x)))


def make_model(training: int):
    model = CNN(nnx.Rngs(0))
    if training:
        model.train()
    else:
        model.eval()
    return model


def make_optimizer():
    return nnx.Optimizer(make_model(1), optax.sgd(0.05, momentum=0.9), wrt=nnx.Param)


def make_metrics():
    return nnx.MultiMetric(accuracy=nnx.metrics.Accuracy(), loss=nnx.metrics.Average("loss"))


def make_rngs():
    return nnx.Rngs(1)


def loss_fn(model: CNN, rngs, images, labels):
    logits = model(images, rngs)
    loss = optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
    return loss, logits


@nnx.jit
def train_step(model: CNN, optimizer: nnx.Optimizer, metrics, rngs: nnx.Rngs, images, labels):
    grad_fn = nnx.value_and_grad(loss_fn, has_aux=True)
    (loss, logits), grads = grad_fn(model, rngs, images, labels)
    metrics.update(loss=loss, logits=logits, labels=labels)
    optimizer.update(model, grads)


@nnx.jit
def eval_step(model: CNN, metrics, images, labels):
    """Add a batch to the metrics."""
    loss, logits = loss_fn(model, None, images, labels)
    metrics.update(loss=loss, logits=logits, labels=labels)


def adapt(model: CNN):
    """Wrap the last layers for fine-tuning."""
    rngs = nnx.Rngs(2)
    model.linear1 = nnx.LoRA(7 * 7 * 16, 4, 32, base_module=model.linear1, rngs=rngs)
    model.linear2 = nnx.LoRA(32, 4, 10, base_module=model.linear2, rngs=rngs)


def make_adapted():
    model = make_model(0)
    adapt(model)
    return model


def make_adapter_optimizer():
    return nnx.Optimizer(make_adapted(), optax.sgd(0.1), wrt=nnx.LoRAParam)


@nnx.jit
def tune_step(model: CNN, optimizer: nnx.Optimizer, images, labels):
    adapters = nnx.DiffState(0, nnx.LoRAParam)
    grad_fn = nnx.value_and_grad(loss_fn, argnums=adapters, has_aux=True)
    (loss, _), grads = grad_fn(model, None, images, labels)
    optimizer.update(model, grads)
    features = nnx.pop(model, nnx.Intermediate)
    return loss, features
