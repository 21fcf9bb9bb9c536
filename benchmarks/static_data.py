"""Measure what static data adds to a first call: a state of 200 leaves beside a dict of them.

The state has what flax's `TrainState` with a chain of optax has: a bound method of a module, and
closures in closures. Each measurement is a fresh process, so imports are included. It is CPU time,
which a busy machine changes least. The median of
the rounds is printed; the exit code is 1 if it is above 2 ms.

    python benchmarks/static_data.py [--rounds 15] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from statistics import median
from time import thread_time
from typing import Any, NamedTuple

LEAVES = 200
_MOST_MS = 2.0


class Transform(NamedTuple):
    """As of optax."""

    init: Any
    update: Any


@dataclass
class Module:
    """As of flax.linen."""

    width: int
    activation: Any
    initializer: Any

    def apply(self, params: Any, x: Any) -> Any:
        """Return the activations."""
        return self.activation(params * x)


def _transform(rate: float, b1: float, b2: float, eps: float) -> Transform:
    def schedule(count: int) -> float:
        return rate * b1**count

    def init(params: Any) -> Any:
        return params

    def update(gradients: Any) -> Any:
        return [schedule(1) * g / (b2 + eps) for g in gradients]

    return Transform(init, update)


def _chain(*parts: Transform) -> Transform:
    inits, updates = zip(*parts, strict=True)

    def init(params: Any) -> Any:
        return [make(params) for make in inits]

    def update(gradients: Any) -> Any:
        for step in updates:
            gradients = step(gradients)
        return gradients

    return Transform(init, update)


def _trees() -> tuple[Any, Any]:
    """Return the treedefs of a dict and of a state with these leaves."""
    import jax

    @partial(jax.tree_util.register_dataclass, data_fields=["params"], meta_fields=["apply", "tx"])
    @dataclass
    class State:
        params: Any
        apply: Any
        tx: Any

    # A name that leads to the type, as users' types have.
    State.__qualname__, globals()["State"] = "State", State
    params = {f"w{index}": float(index) for index in range(LEAVES)}
    tx = _chain(*(_transform(10**-n, 0.9, 0.999, 1e-8) for n in range(1, 5)))
    module = Module(64, jax.numpy.tanh, jax.nn.initializers.lecun_normal())
    structure = jax.tree.structure
    return structure(params), structure(State(params, module.apply, tx))


def _child() -> None:
    from aotbuild.format.tree import describe

    found = []
    for treedef in _trees():
        start = thread_time()
        describe(treedef)
        found.append((thread_time() - start) * 1000)
    print(json.dumps(found))


def measure(rounds: int) -> dict[str, float]:
    """Return the medians in ms: of the dict, of the state, and of the difference."""
    command = [sys.executable, __file__, "--child"]
    # Installed packages have their bytecode.
    kept = {key: text for key, text in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    env = {**kept, "JAX_PLATFORMS": "cpu"}
    runs = [
        subprocess.run(command, env=env, capture_output=True, check=True) for _ in range(rounds)
    ]
    pairs = [json.loads(run.stdout) for run in runs]
    return {
        "dict_ms": median(plain for plain, _ in pairs),
        "state_ms": median(state for _, state in pairs),
        "added_ms": median(state - plain for plain, state in pairs),
    }


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        _child()
        return 0
    found = measure(options.rounds)
    print(json.dumps(found) if options.json else _describe(found))
    return int(found["added_ms"] > _MOST_MS)


def _describe(found: dict[str, float]) -> str:
    return "\n".join(
        f"{name.removesuffix('_ms'):<6} {value:6.2f} ms" for name, value in found.items()
    )


if __name__ == "__main__":
    raise SystemExit(main())
