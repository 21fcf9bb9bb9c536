"""What an executable is called with to be measured: its own inputs, seeded or given."""

from __future__ import annotations

from typing import Any

from aotbuild.build import jax_private
from aotbuild.build.worker.as_numpy import as_numpy
from aotbuild.build.worker.golden.inputs import given_leaves
from aotbuild.build.worker.jitted import jit_job
from aotbuild.build.worker.trace import Traced
from aotbuild.spec.seeds import seeded


def executable_inputs(traced: Traced, lowered: Any) -> list[Any]:
    """Return numpy arrays for the inputs of an executable: constants first, unused leaves left out.

    Leaves are those that golden outputs are computed from: see `verify:` in the manifest.
    """
    constants = [as_numpy(constant) for constant in jax_private.const_args(lowered)]
    given = given_leaves(jit_job(traced.job))
    inputs: list[Any] = []
    for index in jax_private.kept_inputs(lowered):
        leaf = index - len(constants)
        if leaf < 0:
            inputs.append(constants[index])
        else:
            aval = traced.signature.leaves[leaf]
            inputs.append(given[leaf] if leaf in given else seeded(leaf, aval))
    return inputs


def donated_inputs(traced: Traced, lowered: Any) -> tuple[int, ...]:
    """Return which of those inputs the executable may overwrite, by their positions."""
    before = len(jax_private.const_args(lowered))
    kept = jax_private.kept_inputs(lowered)
    return tuple(at for at, index in enumerate(kept) if index - before in traced.donated)
