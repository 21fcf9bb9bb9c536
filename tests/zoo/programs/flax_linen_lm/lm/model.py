"""A language model of scanned and rematerialized blocks, trained, and decoding with a cache."""

import functools
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import struct
from flax.training import common_utils, train_state


@struct.dataclass
class TransformerConfig:
    vocab_size: int = 128
    emb_dim: int = 32
    num_heads: int = 2
    num_layers: int = 3
    mlp_dim: int = 64
    max_len: int = 32
    dropout_rate: float = 0.1
    dtype: Any = jnp.float32
    deterministic: bool = False
    decode: bool = False
    kernel_init: Callable = nn.initializers.xavier_uniform()


class Block(nn.Module):
    config: TransformerConfig

    @nn.compact
    def __call__(self, x, mask):
        cfg = self.config
        y = nn.LayerNorm(dtype=cfg.dtype)(x)
        y = nn.MultiHeadDotProductAttention(
            num_heads=cfg.num_heads,
            dtype=cfg.dtype,
            dropout_rate=cfg.dropout_rate,
            deterministic=cfg.deterministic,
            decode=cfg.decode,
            kernel_init=cfg.kernel_init,
        )(y, mask=mask)
        x = x + nn.Dropout(cfg.dropout_rate)(y, deterministic=cfg.deterministic)
        y = nn.LayerNorm(dtype=cfg.dtype)(x)
        y = nn.gelu(nn.Dense(cfg.mlp_dim, dtype=cfg.dtype)(y))
        self.sow("intermediates", "mlp_norm", jnp.linalg.norm(y))
        y = nn.Dense(cfg.emb_dim, dtype=cfg.dtype)(y)
        return x + nn.Dropout(cfg.dropout_rate)(y, deterministic=cfg.deterministic), None


class TransformerLM(nn.Module):
    config: TransformerConfig

    @nn.compact
    def __call__(self, tokens):
        cfg = self.config
        embed = nn.Embed(cfg.vocab_size, cfg.emb_dim)
        x = embed(tokens.astype("int32"))
        pos = self.param("pos", nn.initializers.normal(0.02), (1, cfg.max_len, cfg.emb_dim))
        if cfg.decode:
            index = self.variable("cache", "pos_index", lambda: jnp.array(0, jnp.uint32))
            i = index.value
            index.value = i + 1
            x = x + jax.lax.dynamic_slice(pos, jnp.array((0, i, 0)), (1, 1, cfg.emb_dim))
            mask = None
        else:
            x = x + pos[:, : tokens.shape[1]]
            mask = nn.make_causal_mask(tokens)
        block = nn.remat(Block, prevent_cse=False, policy=jax.checkpoint_policies.dots_saveable)
        x, _ = nn.scan(
            block,
            variable_axes={"params": 0, "cache": 0, "intermediates": 0},
            split_rngs={"params": True, "dropout": True},
            in_axes=nn.broadcast,
            length=cfg.num_layers,
            metadata_params={nn.PARTITION_NAME: "layers"},
        )(cfg, name="blocks")(x, mask)
        x = nn.LayerNorm()(x)
        return embed.attend(x) / jnp.sqrt(cfg.emb_dim)


config = TransformerConfig()
eval_config = config.replace(deterministic=True)
predict_config = config.replace(deterministic=True, decode=True)


def inverse_square_root(peak, shift):
    def schedule(count):
        return peak * (count + shift) ** -0.5 * shift**0.5

    return schedule


learning_rate_fn = optax.join_schedules(
    [optax.linear_schedule(0.0, 0.002, 10), inverse_square_root(0.002, 10)], boundaries=[10]
)


def init_state():
    params = TransformerLM(eval_config).init(jax.random.PRNGKey(0), jnp.ones((2, 16), jnp.int32))[
        "params"
    ]
    return train_state.TrainState.create(
        apply_fn=TransformerLM(config).apply,
        params=params,
        tx=optax.adamw(learning_rate_fn, b1=0.9, b2=0.98, eps=1e-9, weight_decay=0.1),
    )


def init_cache():
    return TransformerLM(predict_config).init(jax.random.PRNGKey(0), jnp.ones((2, 1), jnp.int32))[
        "cache"
    ]


def train_step(state, batch, config, learning_rate_fn, dropout_rng):
    dropout_rng = jax.random.fold_in(dropout_rng, state.step)
    weights = jnp.where(batch["inputs"] > 0, 1, 0).astype(jnp.float32)

    def loss_fn(params):
        logits, mutated = TransformerLM(config).apply(
            {"params": params},
            batch["inputs"],
            rngs={"dropout": dropout_rng},
            mutable=["intermediates"],
        )
        targets = common_utils.onehot(batch["targets"], config.vocab_size)
        loss = -jnp.sum(targets * nn.log_softmax(logits), axis=-1) * weights
        return loss.sum() / weights.sum(), (logits, mutated)

    lr = learning_rate_fn(state.step)
    (loss, (logits, mutated)), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
    new_state = state.apply_gradients(grads=grads)
    metrics = {
        "loss": loss,
        "learning_rate": lr,
        "accuracy": jnp.mean(logits.argmax(-1) == batch["targets"]),
        "intermediates": mutated["intermediates"],
    }
    return new_state, metrics


def predict_step(params, cache, tokens, config):
    logits, variables = TransformerLM(config).apply(
        {"params": params, "cache": cache}, tokens, mutable=["cache"]
    )
    return jnp.argmax(logits[:, -1], -1)[:, None], variables["cache"]


p_train_step = jax.jit(
    functools.partial(train_step, config=config, learning_rate_fn=learning_rate_fn),
    donate_argnums=(0,),
)
p_pred_step = jax.jit(functools.partial(predict_step, config=predict_config))


def init_params():
    return init_state().params
