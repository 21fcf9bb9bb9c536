"""On a machine with an NVIDIA GPU: what was compiled elsewhere runs here, and compiles nothing.

README.md beside this file says how; without a GPU or the folder of build.py, these tests skip.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from gpu_bench.cases import CASES
from support.processes import ROOT, clean_environment, fresh

pytestmark = pytest.mark.gpu

GPU = ROOT / "benchmarks" / "gpu"
FOLDER = os.environ.get("AOTBUILD_GPU_FOLDER")
VERDICTS = """
import json, sys
sys.path.insert(0, sys.argv[3])
import aotbuild, jax
from gpu_bench.cases import arguments
library = aotbuild.load(f"{sys.argv[1]}/untuned/aot/_aot")
small = json.load(open(f"{sys.argv[1]}/functions.json"))["small"]
given = jax.device_put(arguments(sys.argv[2], small=small))
found = [str(verdict) for verdict in library.explain(sys.argv[2], *given).verdicts]
print(json.dumps(found))
"""


@pytest.fixture(autouse=True)
def _gpu() -> None:
    from aotbuild.platforms.cuda.driver import NoGpu, open_driver

    if FOLDER is None:
        pytest.skip("AOTBUILD_GPU_FOLDER names no folder of benchmarks/gpu/build.py")
    try:
        open_driver()
    except NoGpu as err:
        pytest.skip(f"no NVIDIA GPU: {err}")


@cache
def plan() -> dict[str, Any]:
    """Return what build.py wrote about the folder."""
    found: dict[str, Any] = json.loads(Path(str(FOLDER), "functions.json").read_text())
    return found


def one(name: str, how: str) -> dict[str, Any]:
    """Return what benchmarks/gpu/one.py found of a function."""
    platform = "cpu" if how == "reference" else plan()["platform"]
    environment = clean_environment(JAX_PLATFORMS=platform, PYTHONPATH=str(ROOT))
    started = repr(time.perf_counter())
    command = [sys.executable, GPU / "one.py", str(FOLDER), name, how, started, "first"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return document


def check(name: str, how: str) -> None:
    """Call what was built of a function: its numbers must be right, and nothing is compiled."""
    function = plan()["functions"].get(name)
    built = Path(str(FOLDER), how.removesuffix("-numpy"))
    if function is None or not (built / function["manifest"]).is_dir():
        pytest.skip(f"{built} has no {name}")
    if not Path(str(FOLDER), "references", f"{name}.npz").exists():
        assert one(name, "reference") == {}
    found = one(name, how)
    assert "failed" not in found
    assert (found["wrong"], found.get("compilations", 0)) == (0, 0)
    assert found["error"] <= CASES[name].tolerance


@pytest.mark.parametrize("how", ["untuned", "tuned"])
@pytest.mark.parametrize("name", CASES)
def test_right_and_nothing_compiled(name: str, how: str) -> None:
    check(name, how)


@pytest.mark.parametrize("name", ["top_k", "matmul_small", "eigh", "decode"])
def test_without_jax(name: str) -> None:
    check(name, "untuned-numpy")


def test_jit_is_counted() -> None:
    found = one("top_k", "jit")
    assert found["compilations"] > 0, "the count of compilations does not work"


def test_the_named_gpu_is_optimal() -> None:
    """The folder was built for the GPU that is here; for a neighbor the verdict is OK."""
    found = fresh(VERDICTS, str(FOLDER), "top_k", str(GPU), JAX_PLATFORMS=plan()["platform"])
    assert any("OPTIMAL" in verdict for verdict in found), found


def test_the_preset_is_what_the_driver_says() -> None:
    """Facts that XLA shapes code by; memory and bandwidth differ with the driver and the board."""
    from aotbuild.platforms.cuda.driver import open_driver
    from aotbuild.platforms.cuda.presets import preset_files, shipped_preset

    here = open_driver().describe(0, "here")
    presets = (shipped_preset(name) for name in preset_files())
    preset = next((p for p in presets if p.device_kind == here.device_kind), None)
    if preset is None:
        pytest.skip(f"no preset is of {here.device_kind}")
    inexact = {"device_memory_size", "memory_bandwidth"}
    found = {name: value for name, value in here.facts if name not in inexact}
    expected = {name: value for name, value in preset.facts if name not in inexact}
    assert (here.capability, found) == (preset.capability, expected)
