"""`verify --against-jit`: executables beside their source under `jax.jit`, on this machine.

Each function at each signature has a process of its own (`against_jit_child`), one after the other.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from aotbuild.format.record import Record
from aotbuild.verify.children import ask
from aotbuild.verify.jobs import Job
from aotbuild.verify.outcome import JIT, Comparison, Outcome, Status, not_checked

_CHILD = "aotbuild.verify.against_jit_child"
_DIFFERS = "the executable computes something else than its source under jax.jit does here"


def compare_with_jit(
    place: str, loaded: Sequence[Record], timeout: float, done: Callable[[Outcome], None]
) -> tuple[list[Outcome], list[Comparison]]:
    """Compare executables that were loaded here, of each function and signature the one that runs.

    `timeout` is in seconds, for one process.
    """
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in loaded:
        if not record.target.is_portable:
            key = record.function, record.signature.key()
            groups.setdefault(key, []).append(record)
    outcomes, comparisons = [], []
    for group in groups.values():
        outcome, comparison = _compare(place, group, timeout)
        outcomes.append(outcome)
        comparisons += [comparison] if comparison else []
        done(outcome)
    return outcomes, comparisons


def _compare(place: str, group: list[Record], timeout: float) -> tuple[Outcome, Comparison | None]:
    job = Job(place, group[0])
    # No call of the library may run the source instead.
    environment = {**job.environment(os.environ), "AOTBUILD_FALLBACK": "none"}
    found: Any = ask(_CHILD, job.to_json(), environment, timeout)
    subject = str(group[0])
    if isinstance(found, str):
        status = Status.TIMED_OUT if "took longer" in found else Status.CRASHED
        return Outcome(JIT, subject, status, (found,)), None
    if "refused" in found:
        return not_checked(JIT, subject, found["refused"]), None
    if "failed" in found:
        return Outcome(JIT, subject, Status.FAIL, (found["failed"],)), None
    record = next((each for each in group if str(each.target) == found["target"]), group[0])
    comparison = Comparison(record, found["aot"], found["jit"], found["error"])
    reasons = (*found["lines"], _DIFFERS) if found["lines"] else ()
    status = Status.FAIL if reasons else Status.PASS
    return Outcome(JIT, str(record), status, reasons), comparison
