"""Write a reply, token by token. Needs numpy, not jax: the model comes as two functions."""

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tinylm.sizes import CONTEXT, PROMPT

Scores: TypeAlias = NDArray[np.float32]


def padded(tokens: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return a prompt with zeros behind it, to the length that is compiled."""
    return np.pad(tokens, (0, max(PROMPT - len(tokens), 0)))


def generate(
    prefill: Callable[..., Any], decode: Callable[..., Any], params: Any, prompt: bytes
) -> Iterator[Scores]:
    """Yield the scores of each next token, f32[256], until the cache is full.

    `prefill` and `decode` are those of `tinylm.model`, compiled by whomever. The likeliest token
    comes next.
    """
    tokens = np.frombuffer(prompt, np.uint8).astype(np.int32)
    start = len(tokens) - 1
    cache = prefill(params, padded(tokens[:start])[None])
    token = tokens[start:]
    for position in range(start, CONTEXT):
        scores, cache = decode(params, cache, token, np.int32(position))
        scores = np.asarray(scores)
        yield scores[0]
        token = scores.argmax(axis=1).astype(np.int32)
