"""Writes the inputs of every function of `packages/damage`, and what plain jit makes of them."""

from __future__ import annotations

import sys

import jax
import numpy as np


def main() -> None:
    project, out = sys.argv[1:]
    sys.path.insert(0, project)
    from damaged import functions

    chance = np.random.Generator(np.random.PCG64(0))
    inputs = {
        "double": (functions.double, (16,)),
        "shift": (functions.shift, (16,)),
        "table@1": (functions.table, (1, 64)),
        "table@2": (functions.table, (2, 64)),
        "factor": (functions.factor, (8, 8)),
    }
    arrays = {}
    for name, (function, shape) in inputs.items():
        x = chance.random(shape, np.float32)
        arrays[f"{name}/in"] = x
        for index, leaf in enumerate(jax.tree.leaves(jax.jit(function)(x))):
            arrays[f"{name}/out{index}"] = np.asarray(leaf)
    np.savez(out, **arrays)


if __name__ == "__main__":
    main()
