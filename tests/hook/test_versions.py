"""Several versions of a wheel in one run of hatchling, which keeps one hook for all of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.projects import ONE_FUNCTION, PYPROJECT, write_project

# So that the package editables is not needed.
FOLDERS = '\n[tool.hatch.build]\ndev-mode-dirs = ["."]\n'


@pytest.mark.process
def test_each_version_removes_its_temporary_folder(tmp_path: Path) -> None:
    root = write_project(tmp_path / "project", ONE_FUNCTION, code="def f(x): return x + 1\n")
    (root / "pyproject.toml").write_text(PYPROJECT + FOLDERS)
    (tmp_path / "tmp").mkdir()
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel:standard,editable"]
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    done = subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list((root / "dist").glob("*.whl"))) == 2
    assert list((tmp_path / "tmp").iterdir()) == []
