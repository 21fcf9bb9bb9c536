"""A character model of flax nnx: trained under nnx.jit, and decoded token by token with a cache."""

import jax.numpy as jnp
import optax
from flax import nnx

VOCABULARY, WIDTH, HEADS, LAYERS, LENGTH = 64, 32, 4, 2, 16


class Block(nnx.Module):
    def __init__(self, rngs: nnx.Rngs):
        self.norm1 = nnx.LayerNorm(WIDTH, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(HEADS, WIDTH, decode=False, rngs=rngs)
        self.norm2 = nnx.LayerNorm(WIDTH, rngs=rngs)
        self.up = nnx.Linear(WIDTH, 4 * WIDTH, rngs=rngs)
        self.down = nnx.Linear(4 * WIDTH, WIDTH, rngs=rngs)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)

    def __call__(self, x, mask=None):
        x = x + self.dropout(self.attention(self.norm1(x), mask=mask))
        return x + self.dropout(self.down(nnx.gelu(self.up(self.norm2(x)))))


class GPT(nnx.Module):
    def __init__(self, rngs: nnx.Rngs):
        self.tokens = nnx.Embed(VOCABULARY, WIDTH, rngs=rngs)
        self.positions = nnx.Embed(LENGTH, WIDTH, rngs=rngs)
        self.blocks = nnx.List([Block(rngs) for _ in range(LAYERS)])
        self.norm = nnx.LayerNorm(WIDTH, rngs=rngs)
        self.position = nnx.Cache(jnp.zeros((), jnp.int32))

    def __call__(self, tokens):
        x = self.tokens(tokens) + self.positions(jnp.arange(tokens.shape[1]))
        mask = nnx.make_causal_mask(tokens)
        for block in self.blocks:
            x = block(x, mask)
        return self.tokens.attend(self.norm(x))

    def step(self, tokens):
        """Return the logits of one more token for each row, from the cache."""
        x = self.tokens(tokens) + self.positions(self.position[...])
        self.position[...] += 1
        for block in self.blocks:
            x = block(x)
        return self.tokens.attend(self.norm(x))


def make_model():
    return GPT(nnx.Rngs(0, dropout=1))


def make_optimizer():
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))
    return nnx.Optimizer(make_model(), tx, wrt=nnx.Param)


def make_decoder(batch: int):
    model = make_model()
    model.eval()
    model.set_attributes(decode=True)
    for block in model.blocks:
        block.attention.init_cache((batch, LENGTH, WIDTH))
    return model


@nnx.jit
def train_step(model: GPT, optimizer: nnx.Optimizer, metrics: nnx.MultiMetric, tokens):
    def loss_fn(model: GPT):
        logits = model(tokens[:, :-1])
        loss = optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:])
        return loss.mean(), logits

    (loss, logits), grads = nnx.value_and_grad(loss_fn, has_aux=True)(model)
    metrics.update(loss=loss, logits=logits, labels=tokens[:, 1:])
    optimizer.update(model, grads)
    return loss


def make_metrics():
    return nnx.MultiMetric(loss=nnx.metrics.Average("loss"), accuracy=nnx.metrics.Accuracy())


def decode(model: GPT, tokens):
    """Feed one token per row, and return the next ones; the cache of the model grows."""
    logits = model.step(tokens)
    return jnp.argmax(logits[:, -1], axis=-1)[:, None]
