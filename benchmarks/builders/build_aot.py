"""Build a package of one model with aotbuild: weights as an argument, or hoisted into it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from build_support import MODELS, Job, parse_job, read_arrays

_DTYPES = {"float32": "f32", "int32": "i32"}
# The weights are closed over: XLA sees their values, and the package holds them once.
_CLOSED = """
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from bench_package import {model}

with np.load(Path(__file__).parent / "weights.npz") as archive:
    WEIGHTS = {{name: jnp.asarray(archive[name]) for name in archive.files}}


def apply(*inputs):
    return {model}.{apply}(WEIGHTS, *inputs)
"""


def main() -> None:
    """Write a project around the model and build it."""
    job = parse_job()
    with tempfile.TemporaryDirectory() as folder:
        manifest = write_project(job, Path(folder))
        command = [sys.executable, "-m", "aotbuild.cli", "build", str(manifest)]
        out = job.artifact / "_aot"
        shutil.rmtree(out, ignore_errors=True)
        environment = {**os.environ, "AOTBUILD_STORE": "off"}
        subprocess.run([*command, "--out", str(out)], check=True, env=environment)


def write_project(job: Job, root: Path) -> Path:
    """Write package and manifest; return the path of the manifest."""
    package = root / "bench_package"
    package.mkdir()
    (package / "__init__.py").touch()
    for source in (MODELS / f"{job.model}.py", *MODELS.glob("*.xml")):
        shutil.copy(source, package)
    weights = read_arrays(job.weights)
    closed = job.hoist and bool(weights)
    if closed:
        (package / "closed.py").write_text(_CLOSED.format(model=job.model, apply=job.apply))
        shutil.copy(job.weights, package / "weights.npz")
    manifest = root / "aot.yaml"
    # JSON is YAML.
    manifest.write_text(json.dumps(_manifest(job, weights, closed), indent=1))
    return manifest


def _manifest(job: Job, weights: dict[str, np.ndarray], closed: bool) -> dict[str, object]:
    inputs = read_arrays(job.inputs)
    args: list[dict[str, object]] = [{name: _spec(array)} for name, array in inputs.items()]
    if weights and not closed:
        args.insert(0, {"weights": {name: _spec(array) for name, array in weights.items()}})
    module = "closed" if closed else job.model
    function: dict[str, object] = {
        "call": f"bench_package.{module}:apply",
        "args": args,
        "verify": {"golden": "never"},
    }
    if closed:
        function["constants"] = "hoist"
    if job.startup == "fast":  # XLA then calls no library that builds pipelines at the first call
        function["compiler_options"] = {"xla_cpu_experimental_ynn_fusion_type": ""}
    return {"version": 1, "package": "bench_package", "functions": {"apply": function}}


def _spec(array: np.ndarray) -> str:
    return f"{_DTYPES[array.dtype.name]}[{','.join(map(str, array.shape))}]"


if __name__ == "__main__":
    main()
