"""A Llama-like decoder of penzai with named axes: logits, and one step with a key-value cache."""

import jax
import jax.numpy as jnp
from penzai import pz
from penzai.models.transformer.variants import llamalike_common


def make_model():
    config = llamalike_common.LlamalikeTransformerConfig(
        num_kv_heads=2,
        query_head_multiplier=2,
        embedding_dim=32,
        projection_dim=8,
        mlp_hidden_dim=64,
        num_decoder_blocks=2,
        vocab_size=64,
        mlp_variant="swiglu",
        tie_embedder_and_logits=True,
        rope_wavelength=10_000,
    )
    return llamalike_common.build_llamalike_transformer(config, init_base_rng=jax.random.key(0))


def make_frozen():
    """Return the model with its parameters frozen, so that it is a tree of arrays."""
    return pz.freeze_params(make_model())


def logits(model, tokens):
    """Return the logits of tokens that are named `batch` and `seq`."""
    found = model(tokens, token_positions=pz.nx.arange("seq", tokens.named_shape["seq"]))
    return found.unwrap("batch", "seq", "vocabulary")


def example_tokens(batch: int):
    return pz.nx.wrap(jnp.zeros((batch, 8), jnp.int32)).tag("batch", "seq")
