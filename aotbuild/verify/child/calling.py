"""Calling an executable with golden inputs; in the child process only, for it imports jax.

Leaves in, leaves out: nothing of the user's package is imported.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from aotbuild.errors import AotbuildError
from aotbuild.runtime.source import Source, read_blob
from aotbuild.spec.record import Constant, Record
from aotbuild.spec.seeds import seeded, stored_bytes
from aotbuild.verify.child.golden import differences, read_samples
from aotbuild.verify.outcome import Result, Status

Run = Callable[[Sequence[Any]], Sequence[Any]]
_UNREGISTERED = "No registered implementation for"


def why_not(record: Record) -> str | None:
    """Return why there is nothing to compare with, or None."""
    if record.golden is None:
        reason = record.provenance.get("golden")
        return f"it has no golden outputs: {reason}" if reason else "it has no golden outputs"
    avals = [*record.signature.leaves, *record.calling.outputs]
    needed, memory = sum(map(stored_bytes, avals)), _memory()
    if memory is not None and needed > memory // 2:
        return f"its arguments and results need {needed:,} of {memory:,} bytes of memory"
    return None


def check_golden(
    source: Source, record: Record, run: Run, shardings: Sequence[Any], platform: str
) -> Result:
    """Call an executable with golden inputs and compare; `shardings` are those of the leaves."""
    assert record.golden is not None
    leaves = _leaves(source, record, shardings)
    try:
        outputs = [_as_numpy(output) for output in run(leaves)]
    except Exception as err:  # noqa: BLE001 - jaxlib raises RuntimeError, ValueError and its own
        if _UNREGISTERED in str(err):
            return Status.NOT_CHECKED, [f"it calls what your package registers: {err}"]
        return Status.FAIL, [f"calling it raised {type(err).__name__}: {err}"]
    try:
        samples = read_samples(read_blob(source, record.golden.outputs), outputs)
    except (ValueError, AotbuildError) as err:
        return Status.FAIL, [str(err)]
    reasons = differences(record, outputs, samples, platform)
    return (Status.FAIL if reasons else Status.PASS), reasons


def _leaves(source: Source, record: Record, shardings: Sequence[Any]) -> list[Any]:
    from aotbuild.runtime import jax_private
    from aotbuild.runtime.blobs import Blobs
    from aotbuild.runtime.constants import read_constant

    assert record.golden is not None
    given = dict(record.golden.inputs)
    leaves = []
    for index, (aval, sharding) in enumerate(zip(record.signature.leaves, shardings, strict=True)):
        if index in given:
            constant = Constant(aval, given[index])
            array = read_constant(
                Blobs(source, maps=False), constant, *jax_private.physical_shape(aval)
            )
            leaves.append(jax_private.put(array, aval, sharding))
        else:
            leaves.append(jax_private.put(seeded(index, aval), aval, sharding))
    return leaves


def _as_numpy(output: Any) -> Any:
    import jax
    import numpy as np

    if jax.numpy.issubdtype(output.dtype, jax.dtypes.prng_key):
        output = jax.random.key_data(output)
    return np.asarray(output)


def _memory() -> int | None:
    """Return the bytes of memory of this machine, where the system tells."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return None
