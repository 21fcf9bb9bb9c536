"""Flax models of Hugging Face transformers: a BERT classifier, and GPT-2 with a cache."""

import jax
import jax.numpy as jnp
from transformers import (
    BertConfig,
    FlaxBertForSequenceClassification,
    FlaxGPT2LMHeadModel,
    GPT2Config,
)

# Random weights; a project would write from_pretrained("…").
bert = FlaxBertForSequenceClassification(
    BertConfig(
        vocab_size=128,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=32,
        num_labels=5,
    ),
    seed=0,
)
gpt2 = FlaxGPT2LMHeadModel(
    GPT2Config(
        vocab_size=96,
        n_positions=32,
        n_embd=32,
        n_layer=2,
        n_head=4,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
    ),
    seed=0,
)


def classify(params, input_ids, attention_mask):
    """Return the model's whole output, with the hidden states."""
    return bert(input_ids, attention_mask, params=params, output_hidden_states=True)


def decode_cache(batch: int):
    return gpt2.init_cache(batch, 32)


def decode(params, cache, input_ids, position_ids):
    """Return the next tokens and the cache, after one more token for each row."""
    mask = jnp.ones((input_ids.shape[0], 32), jnp.int32)
    out = gpt2(
        input_ids,
        attention_mask=mask,
        position_ids=position_ids,
        past_key_values=cache,
        params=params,
    )
    return jnp.argmax(out.logits[:, -1:], axis=-1).astype(jnp.int32), out.past_key_values


def generate(params, input_ids):
    return gpt2.generate(
        input_ids, params=params, max_length=16, do_sample=True, prng_key=jax.random.PRNGKey(0)
    ).sequences
