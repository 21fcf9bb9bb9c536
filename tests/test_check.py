"""`make check` can be trusted: a test that starts a process fails unless it has a mark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.processes import TESTS, clean_environment

SOURCE = """
import pytest, subprocess, sys
def test_alone(): pass
def test_hidden(): subprocess.run([sys.executable, "-c", ""])
@pytest.mark.process
@pytest.mark.any_jax
def test_marked(): subprocess.run([sys.executable, "-c", ""])
"""


@pytest.mark.process
@pytest.mark.any_jax
def test_processes_are_found(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(SOURCE)
    settings = ("-p", "conftest", "-c", TESTS.parent / "pyproject.toml", "--rootdir", tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--check", *settings, tmp_path],
        capture_output=True,
        text=True,
        env=clean_environment(PYTHONPATH=str(TESTS)),
        cwd=tmp_path,
    )
    assert "subprocess.Popen: mark this test" in done.stdout
    assert "1 failed, 1 passed, 1 deselected" in done.stdout, done.stdout + done.stderr
