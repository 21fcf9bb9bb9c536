"""The child process of the gate `cold-start`: executables, from opening their package to a result.

It is asked a list of jobs, and answers with a list of {"ms": number} or, for what cannot run here,
{"refused": reason}; see `verify.fresh`.
"""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any

from aotbuild.errors import AotbuildError
from aotbuild.runtime.locate import locate
from aotbuild.runtime.select import judge
from aotbuild.verify.child import backend, find
from aotbuild.verify.child_golden import golden_leaves
from aotbuild.verify.fresh import answer


def main() -> None:
    """Measure each job."""
    answer(lambda jobs: [_measured(job) for job in jobs])


def _measured(job: dict[str, Any]) -> dict[str, Any]:
    try:
        return _measure(job)
    except (AotbuildError, ImportError) as err:
        return {"refused": str(err)}


def _measure(job: dict[str, Any]) -> dict[str, Any]:
    here = backend()
    # What every package needs, and none can change: the modules and the client of the platform.
    host = here.host_for(find(locate(Path(job["place"])), job))
    start = perf_counter()
    source = locate(Path(job["place"]))
    record = find(source, job)
    verdict = judge(record, host)
    if not verdict.fits:
        return {"refused": "; ".join(verdict.reasons)}
    if record.calling.callbacks:
        return {"refused": "it calls back into Python, which is not run"}
    callee = here.load_callee(source, verdict)
    loaded = perf_counter()
    leaves = [*golden_leaves(source, record, callee.physical)]
    called = perf_counter()
    callee.run(leaves)
    return {"ms": (loaded - start + perf_counter() - called) * 1e3}
