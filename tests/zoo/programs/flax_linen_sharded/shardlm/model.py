"""A decoder over four devices: flax linen's logical axes, and rules from them to the mesh."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax.training.train_state import TrainState

RULES = (
    ("batch", "data"),
    ("length", None),
    ("embed", None),
    ("heads", "model"),
    ("head_dim", None),
    ("mlp", "model"),
    ("vocab", "model"),
)
TOKENS, EMBED = 64, 16


def part(*axes):
    return nn.with_logical_partitioning(nn.initializers.xavier_uniform(), axes)


class Attention(nn.Module):
    heads: int = 4

    @nn.compact
    def __call__(self, x):
        shape = (EMBED, self.heads, EMBED // self.heads)
        projections = (self.param(n, part("embed", "heads", "head_dim"), shape) for n in "qkv")
        q, k, v = (
            nn.with_logical_constraint(
                jnp.einsum("bse,ehd->bshd", x, kernel), ("batch", "length", "heads", "head_dim")
            )
            for kernel in projections
        )
        mixed = jax.nn.dot_product_attention(q, k, v, is_causal=True)
        out = self.param("out", part("heads", "head_dim", "embed"), (*shape[1:], EMBED))
        return jnp.einsum("bshd,hde->bse", mixed, out)


class Block(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.with_logical_constraint(x, ("batch", "length", "embed"))
        x = x + Attention()(nn.LayerNorm()(x))
        hidden = nn.Dense(4 * EMBED, kernel_init=part("embed", "mlp"))(nn.LayerNorm()(x))
        hidden = nn.with_logical_constraint(nn.gelu(hidden), ("batch", "length", "mlp"))
        return x + nn.Dense(EMBED, kernel_init=part("mlp", "embed"))(hidden)


class Decoder(nn.Module):
    @nn.compact
    def __call__(self, tokens):
        x = nn.Embed(TOKENS, EMBED, embedding_init=part("vocab", "embed"))(tokens)
        for _ in range(2):
            x = Block()(x)
        return nn.Dense(TOKENS, kernel_init=part("embed", "vocab"))(x)


def make_state():
    model = Decoder()
    params = model.init(jax.random.key(0), jnp.zeros((4, 8), jnp.int32))["params"]
    return TrainState.create(apply_fn=model.apply, params=params, tx=optax.adamw(1e-3))


def state_specs():
    """Return the PartitionSpecs of the state: of its parameters, and of the optimizer's."""
    return nn.logical_to_mesh(nn.get_partition_spec(jax.eval_shape(make_state)), RULES)


def train_step(state, tokens):
    def loss_fn(params):
        logits = state.apply_fn({"params": params}, tokens[:, :-1])
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:])
        return losses.mean()

    with nn.logical_axis_rules(RULES):
        loss, grads = jax.value_and_grad(loss_fn)(state.params)
    return state.apply_gradients(grads=grads), loss
