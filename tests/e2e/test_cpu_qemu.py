"""A wheel of several CPU levels on an older CPU: a Haswell, as qemu-user emulates it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jaxlib.version import __version__ as jaxlib_version
from support.projects import build, copy_project, write_project

from aotbuild.platforms.cpu import host as cpuinfo
from aotbuild.platforms.cpu.checks import level_of
from aotbuild.platforms.cpu.describe import cross_compiles

QEMU = shutil.which("qemu-x86_64")
CAN_BUILD_V4 = cpuinfo.architecture() == "x86_64" and (
    cross_compiles(jaxlib_version) or level_of("x86-64-v4").features <= cpuinfo.features()
)
pytestmark = [
    pytest.mark.wheel,
    pytest.mark.any_jax,
    pytest.mark.skipif(QEMU is None, reason="qemu-x86_64 is missing: apt-get install qemu-user"),
    pytest.mark.skipif(not CAN_BUILD_V4, reason="x86-64-v4 cannot be built here"),
]

# The real interpreter: qemu does not follow a virtual environment's link to find its home.
PYTHON = Path(sys.executable).resolve()
DIGITS = """
import json, sys
sys.path[:0] = sys.argv[1:]
import jax
events = []
jax.monitoring.register_event_duration_secs_listener(
    lambda name, seconds, **_: events.append(name) if "/compile/" in name else None)
import aotbuild
import numpy as np
from aotbuild.platforms.cpu import host as cpuinfo
from digits.data import load_heldout, load_params
lib, call = aotbuild.load("digits"), (load_params(), load_heldout()[0][:8])
try:
    scores = np.asarray(lib.predict(*call)).tolist()
except aotbuild.errors.NoExecutable as error:
    scores = str(error)
verdicts = [str(verdict) for verdict in lib.explain("predict", *call).verdicts]
print(json.dumps({"scores": scores, "compiled": events, "verdicts": verdicts}))
"""
CALL_SHIFT = """
import json, sys
sys.path[:0] = sys.argv[1:]
import aotbuild
import numpy as np
try:
    result = np.asarray(aotbuild.load("proj").shift(np.arange(64, dtype=np.uint8))).tolist()
except aotbuild.errors.NoExecutable as error:
    result = str(error)
print(json.dumps(result))
"""
MANIFEST = """\
version: 1
package: digits
targets: [cpu: {isa: [LEVELS]}]
functions:
  predict:
    call: digits.model:predict
    args: [{params: {like: "digits.model:load_params"}}, {images: "f32[batch,8,8]"}]
    dims: {batch: 8}
"""
SHIFT = "def shift(x):\n    return x << 3\n"


def run(code: str, *path: Path, emulator: tuple[str, ...] = ()) -> Any:
    """Return the JSON that code prints, below an emulator or on this CPU."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_"))}
    done = subprocess.run(
        [*emulator, PYTHON, "-I", "-c", code, *path],
        capture_output=True,
        text=True,
        env={**environment, "JAX_PLATFORMS": "cpu"},
        timeout=300,
    )
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr[-4000:]}"
    return json.loads(done.stdout.splitlines()[-1])


def emulated(code: str, *path: Path) -> Any:
    assert QEMU is not None
    return run(code, *path, emulator=(QEMU, "-cpu", "Haswell"))


@pytest.fixture(scope="module")
def needed(example_python: Path) -> Path:
    """The site-packages of an environment with all that the example's wheel requires."""
    (site,) = example_python.parents[1].glob("lib/python*/site-packages")
    return site


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example project and one function of it, built for two levels."""
    return digits(tmp_path_factory.mktemp("project"), "x86-64-v3, x86-64-v4")


def digits(folder: Path, levels: str) -> Path:
    project = copy_project("../../example_project", folder)
    (project / "aot.yaml").write_text(MANIFEST.replace("LEVELS", levels))
    build(project)
    return project


def test_a_haswell_takes_v3_and_gives_the_right_numbers(installed: Path, needed: Path) -> None:
    haswell = emulated(DIGITS, installed, needed)
    here = run(DIGITS, installed, needed)
    assert haswell["compiled"] == []
    assert haswell["verdicts"][0] == "predict(batch=8) cpu:x86-64-v3:1: OPTIMAL"
    assert haswell["verdicts"][1] == (
        "predict(batch=8) cpu:x86-64-v4:1: REFUSED: isa: x86-64-v4 needs avx512bw, avx512cd, "
        "avx512dq, avx512f, avx512vl, which this CPU (x86_64) lacks"
    )
    for found, expected in zip(haswell["scores"], here["scores"], strict=True):
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-5)


def shift_project(root: Path, level: str) -> Path:
    """Build a function that a CPU with GFNI shifts bytes in one instruction for."""
    text = (
        f"version: 1\npackage: proj\ntargets: [cpu: {{isa: {level}}}]\n"
        "functions:\n  shift: {call: 'proj.f:shift', args: [x: 'u8[64]']}\n"
    )
    build(write_project(root, text, f=SHIFT))
    return root


def test_what_is_for_newer_cpus_only_is_refused_and_the_process_lives(
    needed: Path, tmp_path: Path
) -> None:
    found = emulated(DIGITS, digits(tmp_path, "x86-64-v4"), needed)
    assert "predict(batch=8) cpu:x86-64-v4:1: REFUSED: isa: x86-64-v4 needs " in found["scores"]
    assert "OPTIMAL" not in str(found["verdicts"])


def test_an_instruction_beyond_the_level_kills_nobody(needed: Path, tmp_path: Path) -> None:
    result = emulated(CALL_SHIFT, shift_project(tmp_path / "p", "x86-64-v3"), needed)
    if cross_compiles(jaxlib_version) or "gfni" not in cpuinfo.features():
        assert result == [8 * number % 256 for number in range(64)]
    else:
        assert "REFUSED: features: the code uses gfni, which this CPU lacks" in result
