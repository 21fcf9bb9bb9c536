"""`pytest --aotbuild-record`: what tests call is recorded, with and without xdist."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.processes import clean_environment, run_fresh

from aotbuild.record.recording import read_recording

pytestmark = pytest.mark.process

CONFTEST = """
import os, sys
assert "jax" not in sys.modules  # or a setting of it would come too late
os.environ["JAX_ENABLE_X64"] = "1"
"""
TESTS = """
import jax, numpy as np, pytest
from net import apply

@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_a_size(size):
    assert apply(np.ones(size)).dtype == "float64"

def test_that_fails():
    apply(np.ones(5))
    assert False
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "net.py").write_text("import jax\n\n@jax.jit\ndef apply(x):\n    return x + 1\n")
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_net.py").write_text(TESTS)
    return tmp_path


@pytest.mark.parametrize(("options", "processes"), [(("-p", "no:xdist"), 1), (("-n", "2"), 2)])
def test_all_tests(project: Path, options: tuple[str, ...], processes: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options, "--aotbuild-record", "calls.jsonl"],
        cwd=project,
        env={
            name: value
            for name, value in clean_environment(PYTHONPATH=str(project)).items()
            if not name.startswith("PYTEST_")
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 1, f"{done.stdout}\n{done.stderr}"
    assert "1 failed, 4 passed" in done.stdout
    found = read_recording(project / "calls.jsonl")
    assert len(found.programs) == processes
    (function,) = (key for key, each in found.functions.items() if each.call == "net:apply")
    avals = {str(call.arguments[0].leaves[0]) for call in found.of(function).values()}
    assert avals == {f"f64[{size}]" for size in range(1, 6)}
    assert found.tally(found.of(function)).calls == 5


def test_without_the_option() -> None:
    run_fresh(NOTHING)


NOTHING = """
import sys
import aotbuild.record.pytest_plugin
loaded = {name for name in sys.modules if name.startswith("aotbuild.record")}
assert loaded == {"aotbuild.record", "aotbuild.record.pytest_plugin"}, loaded
assert "jax" not in sys.modules
"""
