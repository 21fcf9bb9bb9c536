"""A disk that is full: the build says so, and makes no lesser wheel of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.processes import clean_environment
from support.projects import write_project

MANIFEST = """
version: 1
package: proj
functions:
  f: {call: "proj.m:f", args: [x: "f32[20000]"]}
"""


@pytest.mark.process
def test_golden_outputs_that_do_not_fit(tmp_path: Path) -> None:
    """They are left out where a function cannot be called; here it was."""
    project = write_project(tmp_path / "project", MANIFEST, m="def f(x):\n    return x + 1\n")
    (out := tmp_path / "out").mkdir()
    # The kernel refuses larger files: what is compiled is smaller, golden outputs are larger.
    command = ["sh", "-c", 'ulimit -f 24; exec "$@"', "sh", sys.executable, "-m", "aotbuild"]
    done = subprocess.run(
        [*command, "build", str(project / "aot.yaml"), "--out", str(out / "_aot")],
        capture_output=True,
        text=True,
        # Python would leave the half of a module's bytecode, which every later process reads.
        env=clean_environment(AOTBUILD_STORE="off", PYTHONDONTWRITEBYTECODE="1"),
        check=False,
    )
    assert done.returncode == 4
    assert "bytes cannot be written: File too large" in done.stderr
    assert not [*out.iterdir()]
