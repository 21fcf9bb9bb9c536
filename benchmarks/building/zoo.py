"""Building the slowest programs of the zoo, beside `jax.jit` of their signatures.

Their libraries are those of `make zoo`, in its environment. Each is built without a store, and its
signatures are lowered and compiled with jax in one process, which reads them from the manifest with
the code of a build: 0.4 s of its CPU time. A round takes six minutes.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import asdict
from typing import Any

from benchmarks.building.pairs import Ratio, Taken, cpu_ratio, taken, variables, wall_ratio
from benchmarks.places import ROOT

# The ten that took longest in `make zoo` with jax 0.12.0.1, on 2026-11-29.
_SLOWEST = (
    "brax_ppo",
    "dynamax_hmm",
    "haiku_resnet",
    "dynamiqs_cavity",
    "jaxsim_arm",
    "hf_flax",
    "flax_linen_lm",
    "numpyro_regression",
    "diffrax_ode",
    "flowjax_density",
)
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
    """Build each program and compile it with jax alone, one after the other; a quick run takes two.

    The ratios are the medians of all programs, with the lowest and the highest.
    """
    version = "oldest" if sys.version_info < (3, 12) else "newest"
    environment = f".venv-zoo-{version}"
    make = ["make", f"{environment}/.installed", f"PYTHON_{version}={sys.executable}"]
    subprocess.run(make, cwd=ROOT, check=True, capture_output=True)
    python = str(ROOT / environment / "bin" / "python")
    pairs = {name: _pair(python, name) for name in _SLOWEST[: 2 if quick else None]}
    return {
        "cpu_ratio": asdict(cpu_ratio(list(pairs.values()))),
        "wall_ratio": asdict(wall_ratio(list(pairs.values()))),
        "programs": {
            name: {"cpu": ours.cpu / theirs.cpu, "wall": ours.wall / theirs.wall}
            for name, (ours, theirs) in pairs.items()
        },
    }


def _pair(python: str, name: str) -> tuple[Taken, Taken]:
    folder = ROOT / "tests" / "zoo" / "programs" / name
    told = {"AOTBUILD_STORE": "off", "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(folder)}
    with tempfile.TemporaryDirectory() as out, variables(**told):
        build = [python, "-m", "aotbuild.cli", "build", "aot.yaml", "--out", f"{out}/_aot"]
        return taken(build, folder), taken([python, "-c", _BY_JIT], folder)


def describe(row: dict[str, Any]) -> str:
    """Return what was measured, for people."""
    head = f"{Ratio(**row['cpu_ratio'])} of the CPU time, {Ratio(**row['wall_ratio'])} of the time"
    lines = [
        f"  {name}: {found['cpu']:.2f} of the CPU time, {found['wall']:.2f} of the time"
        for name, found in row["programs"].items()
    ]
    return "\n".join([head, *lines])
