"""Make golden outputs: what the function returned when it was built, for `verify` to compare with.

The last step of a job; see `build.protocol`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from aotbuild.build.job_results import NOT_FINITE, RAISED_ADVICE, TOO_MUCH_ADVICE
from aotbuild.build.protocol import Compiled, Failed, GoldenOutputs, Reply, Started
from aotbuild.build.time_and_memory_limits import GOLDEN_SECONDS, available_memory
from aotbuild.errors import PlanError, TraceRefused
from aotbuild.format.golden import SPREAD, nudged, samples, spread, stored_bytes, widened
from aotbuild.format.record import Blob, Golden
from aotbuild.platforms.base import machine
from aotbuild.store.entry import Entry
from aotbuild.store.folder import Store
from aotbuild.store.keys import golden_key
from aotbuild.worker.blobs import BlobFolder, serialize, store_array
from aotbuild.worker.imports import unchanged_config
from aotbuild.worker.reference import (
    NotForHost,
    Reference,
    TakesIndices,
    as_argument,
    check_seeds,
    float_dtypes,
    given_leaves,
    lower_reference,
    product_flops,
)
from aotbuild.worker.thunk_rewrite.rewrite import Candidate, comparisons
from aotbuild.worker.trace import Traced
from aotbuild.worker.user_errors import user_traceback

# FLOPs of a call that take about GOLDEN_SECONDS on two CPUs; and so few that no machine that builds
# takes long for them. A count and not a clock decides, so that each machine makes the same record.
_MOST_FLOPS = 2e12
_FEW_FLOPS = 1e11
# The part of the free memory that may be used: other jobs take some at the same time.
_SHARE = 0.5
# Seeding a leaf takes several times its size (`format.golden`).
_SEEDING = 6

# Modes without golden outputs, and why. The build sets all but the first.
_NONE = {
    "never": "the manifest says verify: {golden: never}",
    "sizes": "the first sizes of the dims have them; verify: {golden: always} computes all",
}


class _Skipped(Exception):
    """Golden outputs take too much time or memory; the text says how much."""


class _NoMemory(_Skipped):
    """More is needed than is free here now."""


@dataclass(frozen=True)
class GoldenMaker:
    """Computes golden outputs, or takes them from the store."""

    blobs: BlobFolder
    store: Store
    provenance: Mapping[str, Any]

    def messages(
        self, traced: Traced, candidates: Sequence[tuple[Candidate, Compiled]]
    ) -> Iterator[Reply]:
        """Yield the messages of one job's golden outputs, and compare its rewritten executables."""
        mode = traced.job.golden
        if mode in _NONE:
            yield GoldenOutputs(reason=_NONE[mode])
            return
        yield Started(stage="golden")
        given = None
        try:
            with unchanged_config(f"functions.{traced.job.name}.verify"):
                message, given = self._make(traced)
        except _Skipped as err:
            text = f"no golden outputs: {err}. {TOO_MUCH_ADVICE}"
            message = _skipped(str(err), text, transient=isinstance(err, _NoMemory))
        except (NotForHost, TakesIndices) as err:
            text = f"no golden outputs: {err}"
            none = _skipped(str(err), text)
            message = Failed(stage="golden", error=text) if mode == "always" else none
        except (PlanError, TraceRefused) as err:
            message = Failed(stage="golden", error=str(err))
        except BaseException as err:  # noqa: BLE001 (the function may raise anything)
            reason = (
                f"the function raised {type(err).__name__} when it was called with golden inputs"
            )
            text = f"{reason}\n{user_traceback(err)}\n{RAISED_ADVICE}"
            none = _skipped(reason, f"no golden outputs: {text}", transient=True)
            message = Failed(stage="golden", error=text) if mode == "always" else none
        yield message
        yield from comparisons(candidates, given)

    def _make(self, traced: Traced) -> tuple[Reply, dict[int, Any] | None]:
        """Return the golden outputs, and the leaves they were given; None if a call is long."""
        verify, reference = traced.job.function.verify, lower_reference(traced)
        flops = product_flops(reference.stage.jaxpr)
        if traced.job.golden == "auto" and flops > _MOST_FLOPS:
            msg = f"a call ({flops:.1e} FLOPs) may take longer than {GOLDEN_SECONDS:g} s"
            raise _Skipped(msg)
        given = given_leaves(reference.jitted)
        check_seeds(traced, given)
        blobs = {leaf: store_array(array, self.blobs) for leaf, array in sorted(given.items())}
        floats = tuple(sorted(set(float_dtypes(traced.closed_jaxpr))))
        entry, key = self._run_once(reference, given, blobs, floats)
        outputs = self.blobs.add("safetensors", entry.data, key)
        made = GoldenOutputs(
            golden=Golden(tuple(blobs.items()), outputs, verify.rtol, verify.atol),
            floats=floats,
            notes=() if entry.facts["finite"] else (NOT_FINITE,),
        )
        return made, given if flops <= _FEW_FLOPS else None

    def _run_once(
        self,
        reference: Reference,
        given: dict[int, Any],
        blobs: dict[int, Blob],
        floats: Sequence[str],
    ) -> tuple[Entry, str]:
        key = golden_key(
            module=reference.identity,
            leaves=list(map(str, reference.traced.signature.leaves)),
            given=((leaf, blob.sha256) for leaf, blob in blobs.items()),
            machine=machine().to_json(),
            provenance=self.provenance,
        )
        entry = self.store.parsed(key, _with_facts)
        if entry is None:
            entry = _run(reference, given, floats)
            self.store.put(key, entry)
        return entry, key


def _skipped(reason: str, note: str, *, transient: bool = False) -> GoldenOutputs:
    return GoldenOutputs(reason=reason, notes=(note,), transient=transient)


def _check_memory(reference: Reference, compiled: Any) -> None:
    sizes = list(map(stored_bytes, reference.traced.signature.leaves))
    temporary = getattr(compiled.memory_analysis(), "temp_size_in_bytes", 0)
    # As numpy's and as jax's arrays.
    needed = 2 * (sum(sizes) + reference.result_bytes) + temporary
    needed += _SEEDING * max(sizes, default=0)
    available = available_memory()
    if available is not None and needed > _SHARE * available:
        msg = f"a call would need {needed:,} bytes of memory, more than half of what is free here"
        raise _NoMemory(msg)


def _run(reference: Reference, given: dict[int, Any], floats: Sequence[str]) -> Entry:
    compiled = reference.compile()
    if reference.traced.job.golden == "auto":
        _check_memory(reference, compiled)
    leaves = enumerate(reference.traced.signature.leaves)
    arguments = [as_argument(leaf, aval, given) for leaf, aval in leaves]
    outputs = reference.outputs(compiled, arguments)
    found = samples(outputs, floats)
    is_finite = _is_finite(list(found.values()))
    if floats and product_flops(reference.stage.jaxpr) <= _FEW_FLOPS:
        for place, each in enumerate(arguments):
            arguments[place] = nudged(each)
        moved = map(spread, outputs, reference.outputs(compiled, arguments))
        found |= {f"{index}{SPREAD}": np.array([far]) for index, far in enumerate(moved) if far}
    return Entry({"finite": is_finite}, serialize(found))


def _with_facts(entry: Entry) -> Entry:
    """Return an entry that says whether its outputs are finite; KeyError for another."""
    entry.facts["finite"]
    return entry


def _is_finite(samples: list[Any]) -> bool:
    """Return whether a float is finite; True if there are no floats."""
    floats = [s for s in samples if s.size and jax.numpy.issubdtype(s.dtype, np.inexact)]
    return not floats or any(bool(np.isfinite(widened(sample)).any()) for sample in floats)
