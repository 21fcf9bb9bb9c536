"""On a machine with an NVIDIA GPU: what was compiled elsewhere runs here, and compiles nothing.

`run.sh` installs what these tests need; without it, or without a GPU, they are skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from importlib import util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.gpu
HERE = Path(__file__).parent
# Sums are added up in another order by an executable that was not tuned here.
TOLERANCES = {"attend": 2e-2, "conv": 2e-2, "layer": 5e-3, "values": 1e-3, "order": 0.0}


def needed() -> str | None:
    """Return why these tests cannot run here."""
    if util.find_spec("gpu_probe") is None:
        return "the wheel of tests/device/project is not installed; tests/device/run.sh does it"
    import jax

    try:
        jax.devices("cuda")
    except RuntimeError as err:
        return f"no NVIDIA GPU that jax can use: {err}"
    return None


@pytest.fixture(autouse=True)
def _gpu() -> None:
    if reason := needed():
        pytest.skip(reason)


@cache
def probe(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, str(HERE / "probe.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return document


def test_nothing_is_compiled() -> None:
    assert probe("aot")["compilations"] == 0
    assert probe("jit")["compilations"] > 0, "the count itself does not work"


@pytest.mark.parametrize("name", TOLERANCES)
def test_numbers_of_jit(name: str) -> None:
    found, expected = probe("aot")["results"][name], probe("jit")["results"][name]
    np.testing.assert_allclose(found, expected, rtol=TOLERANCES[name], atol=TOLERANCES[name])


def test_the_named_gpu_is_optimal() -> None:
    import aotbuild

    kind = probe("aot")["device_kind"]
    library = aotbuild.load("gpu_probe")
    (x,) = [np.zeros(1048576, np.float32)]
    verdicts = [str(verdict) for verdict in library.explain("order", x)]
    assert any("OPTIMAL" in verdict for verdict in verdicts), f"{kind}: {verdicts}"


def test_code_for_a_neighbour() -> None:
    """What was made for an H100 runs on an H200: XLA compares capabilities, not names."""
    folder = os.environ.get("AOTBUILD_NEIGHBOUR")
    if not folder or "H200" not in probe("aot")["device_kind"]:
        pytest.skip("needs an H200, and the folder that run.sh names in AOTBUILD_NEIGHBOUR")
    found = probe("aot", folder)
    assert found["compilations"] == 0
    tolerance = TOLERANCES["layer"]
    expected = probe("jit")["results"]["layer"]
    np.testing.assert_allclose(found["results"]["layer"], expected, rtol=tolerance, atol=tolerance)


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
