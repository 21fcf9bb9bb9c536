"""Measure warm calls of functions under `nnx.jit` and `eqx.filter_jit`, against these themselves.

Each is called with whole objects: a training step of a flax module and its optimizer, which are
changed in place, a call of the module, and a training step of an equinox module. Blocks of calls
alternate between the two, and the median of the blocks' ratios is printed, because a busy machine
slows both halves of a pair alike. Exits with 1 if one is slower.

    python benchmarks/wraps.py [--pairs 15] [--json]
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import jax
import numpy as np
from small_package import build_package

import aotbuild

_CALLS = 100
_SOURCE = """
import equinox as eqx
import jax
import optax
from flax import nnx


class Net(nnx.Module):
    def __init__(self, rngs):
        self.layers = nnx.List([nnx.Linear(16, 16, rngs=rngs) for _ in range(4)])

    def __call__(self, x):
        for layer in self.layers:
            x = nnx.relu(layer(x))
        return x


def make_net():
    return Net(nnx.Rngs(0))


def make_optimizer():
    return nnx.Optimizer(make_net(), optax.adam(1e-3), wrt=nnx.Param)


@nnx.jit
def forward(net, x):
    return net(x)


@nnx.jit
def train(net, optimizer, x):
    value, grads = nnx.value_and_grad(lambda net: ((net(x) - x) ** 2).mean())(net)
    optimizer.update(net, grads)
    return value


OPTIMIZER = optax.adam(1e-3)


def make_mlp():
    return eqx.nn.MLP(16, 16, 16, 3, key=jax.random.key(0))


def make_state():
    return OPTIMIZER.init(eqx.filter(make_mlp(), eqx.is_array))


@eqx.filter_jit
def step(mlp, state, x):
    loss = lambda mlp: ((jax.vmap(mlp)(x) - x) ** 2).mean()
    value, grads = eqx.filter_value_and_grad(loss)(mlp)
    updates, state = OPTIMIZER.update(grads, state)
    return eqx.apply_updates(mlp, updates), state, value
"""
_MANIFEST = """
version: 1
package: wrapped
defaults: {verify: {golden: never}}
functions:
  forward:
    call: wrapped.model:forward
    args: [net: {like: "wrapped.model:make_net"}, x: "f32[8,16]"]
  train:
    call: wrapped.model:train
    args:
      - net: {like: "wrapped.model:make_net"}
      - optimizer: {like: "wrapped.model:make_optimizer"}
      - x: f32[8,16]
  step:
    call: wrapped.model:step
    args:
      - mlp: {like: "wrapped.model:make_mlp"}
      - state: {like: "wrapped.model:make_state"}
      - x: f32[8,16]
"""


def main() -> int:
    """Print one line for each function."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results = list(measure(options.pairs))
    for result in results:
        print(json.dumps(result) if options.json else _describe(result))
    return int(any(result["ratio"] > 1 for result in results))


def measure(pairs: int) -> Iterator[dict[str, Any]]:
    """Yield medians in µs a call, and the median ratio of the pairs, by function."""
    with tempfile.TemporaryDirectory() as folder:
        library = aotbuild.load(build_package(Path(folder), "wrapped", _SOURCE, _MANIFEST))
        sys.path.insert(0, folder)
        model = importlib.import_module("wrapped.model")
        x = jax.device_put(np.ones((8, 16), "float32"))
        makers = {
            "forward": (model.make_net,),
            "train": (model.make_net, model.make_optimizer),
            "step": (model.make_mlp, model.make_state),
        }
        for name, made in makers.items():
            both = getattr(model, name), getattr(library, name)
            rows = [[_seconds(f, (*(m() for m in made), x)) for f in both] for _ in range(pairs)]
            yield {
                "function": name,
                "own_us": statistics.median(one for one, _ in rows) * 1e6,
                "aotbuild_us": statistics.median(other for _, other in rows) * 1e6,
                "ratio": statistics.median(other / one for one, other in rows),
            }


def _seconds(function: Callable[..., Any], arguments: tuple[Any, ...]) -> float:
    """Return the time of one call; the first is not counted."""
    function(*arguments)
    start = perf_counter()
    for _ in range(_CALLS):
        result = function(*arguments)
    jax.block_until_ready([x for x in jax.tree.leaves(result) if isinstance(x, jax.Array)])
    return (perf_counter() - start) / _CALLS


def _describe(result: dict[str, Any]) -> str:
    return (
        f"{result['function']:>8}: {result['aotbuild_us']:7.1f} µs, its own jit "
        f"{result['own_us']:7.1f} µs, ratio {result['ratio']:.2f}"
    )


if __name__ == "__main__":
    sys.exit(main())
