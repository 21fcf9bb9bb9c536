"""Write a reply, token by token. Needs numpy, not jax: the model comes as two functions."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tinylm.sizes import CONTEXT, HEAD, KV_HEADS, LAYERS

Scores: TypeAlias = NDArray[np.float32]


def generate(
    prefill: Callable[..., Any],
    decode: Callable[..., Any],
    params: Any,
    prompt: bytes,
    place: Callable[[Any], Any] = lambda tree: tree,
) -> Iterator[Scores]:
    """Yield the scores of each next token, f32[256], until the cache is full.

    `prefill` and `decode` are those of `tinylm.model`, compiled by whomever; `place` puts a
    tree where they want it. The likeliest token comes next.
    """
    tokens = np.frombuffer(prompt, np.uint8).astype(np.int32)
    start = len(tokens) - 1
    cache = place(_filled(prefill(params, tokens[None, :start])))
    token = tokens[start:]
    for position in range(start, CONTEXT):
        scores, cache = decode(params, cache, token, np.int32(position))
        scores = np.asarray(scores)
        yield scores[0]
        token = scores.argmax(axis=1).astype(np.int32)


def _filled(beginning: Mapping[str, Any]) -> dict[str, NDArray[np.float32]]:
    """Return a cache that begins with the keys and values of the prompt."""
    cache = {}
    for name, array in beginning.items():
        cache[name] = np.zeros((LAYERS, 1, CONTEXT, KV_HEADS, HEAD), np.float32)
        cache[name][:, :, : array.shape[2]] = array
    return cache
