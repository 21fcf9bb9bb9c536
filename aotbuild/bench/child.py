"""The process that measures one form of one executable: loading, calls, and memory.

It is asked {"form": …, "job": …, "wanted": …}, where `wanted` is the job of the executable whose
signature counts, and answers with the fields of `measure.Run`, or with {"refused": reason}; see
`verify.fresh`. What every form needs happens before the clock starts:
importing jax and making the client of the platform. Inputs are on the device before a call.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from aotbuild.bench.forms import JIT, PORTABLE
from aotbuild.bench.runners import Runner, native_runner, portable_runner
from aotbuild.errors import AotbuildError
from aotbuild.runtime.imports import imports_in
from aotbuild.runtime.locate import locate
from aotbuild.runtime.select import judge
from aotbuild.runtime.source import open_index
from aotbuild.spec.record import Record
from aotbuild.verify import child_jax
from aotbuild.verify.child import find
from aotbuild.verify.child_golden import golden_leaves
from aotbuild.verify.fresh import answer

# Warm calls: for this long, but this many at least and at most.
_SECONDS = 0.5
_FEWEST, _MOST = 10, 1000
_KILOBYTE = 1 if sys.platform == "darwin" else 1024


def main() -> None:
    """Measure one form."""
    answer(_measured)


def _measured(asked: dict[str, Any]) -> dict[str, Any]:
    try:
        return _measure(asked["form"], asked["job"], asked["wanted"])
    except (AotbuildError, ImportError) as err:
        return {"refused": str(err)}


def _measure(form: str, job: dict[str, Any], wanted_job: dict[str, Any]) -> dict[str, Any]:
    wanted_source = locate(Path(wanted_job["place"]))
    wanted = find(wanted_source, wanted_job)
    verdict = judge(wanted, child_jax.host_for(wanted))
    if not verdict.fits:
        return {"refused": "; ".join(verdict.reasons)}
    if wanted.calling.callbacks:
        return {"refused": "it calls back into Python, which is not run"}
    make = _maker(form, job, wanted)
    before, start = _peak_memory(), perf_counter()
    runner = make()
    loaded = perf_counter() - start
    leaves = [*golden_leaves(wanted_source, wanted, runner.physical)]
    first = _seconds(runner, leaves)
    after = _peak_memory()
    return {
        "load_ms": loaded * 1e3,
        "first_ms": first * 1e3,
        "steady_ms": _steady(runner, leaves) * 1e3,
        "memory_bytes": max(0, after - before),
    }


def _maker(form: str, job: dict[str, Any], wanted: Record) -> Callable[[], Runner]:
    """Return what is timed: loading an executable, or tracing and compiling what it was."""
    place = Path(job["place"])
    if form == JIT:
        from aotbuild.bench.source import source_maker  # imports the source, before the clock

        source = locate(place)
        function = open_index(source).function(wanted.function)
        assert function is not None
        return source_maker(wanted, function, imports_in(source)())

    def load() -> Runner:
        source = locate(place)
        record = find(source, job)
        host = child_jax.host_for(record)
        if form == PORTABLE:
            return portable_runner(source, record, wanted, host)
        verdict = judge(record, host)
        if not verdict.fits:
            msg = "; ".join(verdict.reasons)
            raise AotbuildError(msg)
        return native_runner(source, verdict)

    return load


def _steady(runner: Runner, leaves: Sequence[Any]) -> float:
    """Return the median of warm calls in seconds."""
    times: list[float] = []
    end = perf_counter() + _SECONDS
    while len(times) < _FEWEST or (len(times) < _MOST and perf_counter() < end):
        times.append(_seconds(runner, leaves))
    return median(times)


def _seconds(runner: Runner, leaves: Iterable[Any]) -> float:
    """Return how long one call takes, until its results are ready."""
    # Placed anew for each call: an executable may donate what it gets.
    placed = runner.place(leaves)
    start = perf_counter()
    runner.run(placed)
    return perf_counter() - start


def _peak_memory() -> int:
    """Return the most memory that this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KILOBYTE
