"""Functions under nnx.jit: what they are given, they change in place."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx


class Net(nnx.Module):
    """Dropout draws keys, and BatchNorm keeps averages."""

    def __init__(self, rngs):
        # No bias: its gradient would be rounding errors only, as the next layer subtracts the mean.
        self.first = nnx.Linear(4, 8, use_bias=False, rngs=rngs)
        self.norm = nnx.BatchNorm(8, rngs=rngs)
        self.drop = nnx.Dropout(0.5, rngs=rngs)
        self.last = nnx.Linear(8, 2, rngs=rngs)

    def __call__(self, x):
        return self.last(self.drop(jax.nn.relu(self.norm(self.first(x)))))


class Tied(nnx.Module):
    """One Variable is in it twice, and so is one stream of keys."""

    def __init__(self, rngs):
        self.embed = nnx.Embed(5, 4, rngs=rngs)
        self.output = self.embed.embedding
        self.rngs = rngs
        self.noise = rngs.noise
        self.count = nnx.Variable(jnp.zeros((), jnp.int32))

    def __call__(self, tokens):
        self.count[...] += 1
        noise = jax.random.normal(self.noise(), (5,)) + jax.random.normal(self.rngs.noise(), (5,))
        return self.embed(tokens) @ self.output[...].T + noise


class Decoder(nnx.Module):
    """One step with a cache of what it saw before."""

    def __init__(self, rngs):
        self.attend = nnx.MultiHeadAttention(2, 4, decode=True, rngs=rngs)
        self.attend.init_cache((3, 8, 4))

    def __call__(self, x):
        return self.attend(x)


def make_net():
    return Net(nnx.Rngs(0))


def make_net_for_evaluation():
    return nnx.view(make_net(), use_running_average=True, deterministic=True)


def make_tied():
    return Tied(nnx.Rngs(0, noise=3))


def make_decoder():
    return Decoder(nnx.Rngs(0))


def make_optimizer():
    # Not adam: it divides by gradients that are small, and by their rounding errors.
    return nnx.Optimizer(make_net(), optax.sgd(1e-2, momentum=0.9), wrt=nnx.Param)


@nnx.jit
def train(model, optimizer, x, y):
    def loss(model):
        return jnp.mean((model(x) - y) ** 2)

    value, grads = nnx.value_and_grad(loss)(model)
    optimizer.update(model, grads)
    return value


@nnx.jit
def forward(model, x):
    return model(x)


@nnx.jit
def tied(model, tokens):
    return {"scores": model(tokens), "count": model.count, "model": model}


@nnx.jit(static_argnames="twice")
def decode(model, x, *, twice=False):
    y = model(x)
    return model(y) if twice else y


@nnx.jit(donate_argnums=0)
def donating(model, tokens):
    model.count[...] += 1
    return model(tokens)


def plain(model, x):
    return model(x)


# --- refused --------------------------------------------------------------------------------------


def other_mode(model, x):
    model.eval()
    return x


def new_attribute(model, x):
    model.seen = nnx.Intermediate(x)
    return x


@nnx.jit(out_shardings=jax.sharding.SingleDeviceSharding(jax.devices()[0]))
def sharded(model, x):
    return model(x)


def one_twice(model, x):
    net = nnx.Dropout(0.5)
    return net, net
