"""Building the slowest programs of the zoo, beside `jax.jit` of their signatures.

Their libraries are those of `make zoo`, in its environment. Each is built without a store, and its
signatures are lowered and compiled with jax in one process, which reads them from the manifest with
the code of a build: 0.4 s of its CPU time. The two take turns.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.building.pairs import Ratio, Taken, cpu_ratio, taken, variables, wall_ratio
from benchmarks.places import ROOT

# Those that took longest to build with jax 0.12.0.1 on 2026-11-29, by `make zoo`.
_SLOWEST: tuple[str, ...] = ()
_BY_JIT = """
import sys
from pathlib import Path
import jax
from aotbuild.build.jobs import make_jobs
from aotbuild.build.project import open_project
from aotbuild.worker.jitted import jit_job
jobs = make_jobs(open_project(Path("aot.yaml"), None, print).plan.units)
for name, value in {pair for settings, _, _ in jobs for pair in settings.config}:
    jax.config.update(name, value)
for _, job, _ in jobs:
    jit_job(job).trace().lower().compile()
"""


def measure(quick: bool) -> dict[str, Any]:
    """Build each program and compile it with jax alone, in turns; a quick run takes two of them.

    The ratios of all are those of the sums of a round.
    """
    version = "oldest" if sys.version_info < (3, 12) else "newest"
    environment = f".venv-zoo-{version}"
    make = ["make", f"{environment}/.installed", f"PYTHON_{version}={sys.executable}"]
    subprocess.run(make, cwd=ROOT, check=True, capture_output=True)
    python = str(ROOT / environment / "bin" / "python")
    pairs = {
        name: [_pair(python, name) for _ in range(1 if quick else 3)]
        for name in _SLOWEST[: 2 if quick else None]
    }
    rounds = [
        (_sum([ours for ours, _ in each]), _sum([theirs for _, theirs in each]))
        for each in zip(*pairs.values(), strict=True)
    ]
    return {
        "cpu_ratio": asdict(cpu_ratio(rounds)),
        "wall_ratio": asdict(wall_ratio(rounds)),
        "programs": {
            name: {"cpu_ratio": asdict(cpu_ratio(each)), "wall_ratio": asdict(wall_ratio(each))}
            for name, each in pairs.items()
        },
    }


def _pair(python: str, name: str) -> tuple[Taken, Taken]:
    folder = ROOT / "tests" / "zoo" / "programs" / name
    told = {"AOTBUILD_STORE": "off", "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(folder)}
    with tempfile.TemporaryDirectory() as out, variables(**told):
        build = [python, "-m", "aotbuild.cli", "build", "aot.yaml", "--out", f"{out}/_aot"]
        return taken(build, folder), taken([python, "-c", _BY_JIT], folder)


def _sum(takes: Sequence[Taken]) -> Taken:
    return Taken(sum(each.wall for each in takes), sum(each.cpu for each in takes))


def describe(row: dict[str, Any]) -> str:
    """Return what was measured, for people."""
    rows = {"all": row, **row["programs"]}
    return "\n".join(
        f"{name}: {Ratio(**each['cpu_ratio'])} of the CPU time, "
        f"{Ratio(**each['wall_ratio'])} of the time"
        for name, each in rows.items()
    )
