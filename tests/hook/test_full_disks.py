"""A hook that meets an error of the system says which file it was about."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.projects import ONE_FUNCTION, PYPROJECT, write_project

# Each executable has 5 kB, the index 20 kB.
MANIFEST = ONE_FUNCTION.replace("f32[2]", "f32[n]") + "    dims: {n: [1, 2, 3, 4, 5, 6, 7, 8]}\n"
pytestmark = pytest.mark.process

# No file may grow beyond 10 kB, as on a full disk; Python ignores the signal of that limit.
HATCHLING = """
import resource, runpy, sys
sys.dont_write_bytecode = True
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
sys.argv[1:] = ["build", "-t", "wheel"]
runpy.run_module("hatchling", run_name="__main__")
"""


def test_a_full_disk_is_no_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOTBUILD_STORE", "off")
    root = write_project(tmp_path / "here", MANIFEST, code="def f(x):\n    return x + 1\n")
    (root / "pyproject.toml").write_text(PYPROJECT)
    command = [sys.executable, "-c", HATCHLING]
    ended = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr, ended.stderr
    last = (ended.stdout + ended.stderr).splitlines()[-1]
    assert last.startswith("aotbuild: /")
    assert last.endswith(": File too large")
    assert not list(root.glob("dist/*"))
