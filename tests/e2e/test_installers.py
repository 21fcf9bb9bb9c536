"""The README's five-minute project, installed and built by uv, in isolation.

`tests/docs/test_readme.py` does it with pip.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from support.doc_pages import FENCE
from support.processes import ROOT

from aotbuild.toolchains.uv import run_uv, uv_program

pytestmark = [pytest.mark.wheel, pytest.mark.any_jax]

CALL = """
import aotbuild, jaxlib, numpy as np
lib = aotbuild.load("mypkg")
print(lib.score(np.ones((16, 4), np.float32), np.ones((32, 16), np.float32)).shape)
"""
KINDS = ("toml", "yaml")
COMPILED = re.compile(r"aotbuild: \[\d+/\d+\] done: score\(batch=\d+\) for .*")


class Project:
    """The project of the README, and an environment beside it that has pip and no more."""

    def __init__(self, folder: Path, links: Path) -> None:
        self.root, self.links = folder / "mypkg", links
        text = (ROOT / "README.md").read_text()
        found = {kind: dedent(body) for _, kind, body in FENCE.findall(text)}
        blocks = {kind: found[kind] for kind in KINDS}
        model = next(dedent(body) for _, _, body in FENCE.findall(text) if "def score" in body)
        (self.root / "mypkg").mkdir(parents=True)
        (self.root / "mypkg" / "__init__.py").touch()
        (self.root / "mypkg" / "model.py").write_text(model)
        (self.root / "pyproject.toml").write_text(blocks["toml"])
        (self.root / "aot.yaml").write_text(blocks["yaml"])
        self.environment = self.root / ".venv"
        python = ("--python", sys.executable)
        run_uv(("venv", "--quiet", "--seed", *python, self.environment), self.root)

    def run(self, command: str) -> str:
        """Run a command in the project, its environment active; return what it printed."""
        paths = (self.environment / "bin", Path(uv_program()).parent, os.environ["PATH"])
        dropped = ("PYTHON", "JAX_", "XLA_")
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(dropped)}
        settings = {
            "PATH": os.pathsep.join(map(str, paths)),
            "VIRTUAL_ENV": str(self.environment),
            "PIP_FIND_LINKS": self.links.as_uri(),
            "UV_FIND_LINKS": str(self.links),
            "AOTBUILD_STORE": "off",
        }
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.root, env={**inherited, **settings}, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr


@pytest.fixture
def project(tmp_path: Path, links: Path) -> Project:
    return Project(tmp_path, links)


def test_uv_sync(project: Project, tmp_path: Path) -> None:
    """What is installed as editable has no executables, and says so.

    An edit of the manifest is seen by `[tool.uv] cache-keys`, which every page that a newcomer
    meets has.
    """
    pages = ("README.md", "docs/tutorial/first-wheel.md", "docs/reference/hook.md")
    for place in (*pages, "example_project/pyproject.toml"):
        assert "[tool.uv]" in (ROOT / place).read_text(), place
    project.run("uv sync")
    (tmp_path / "call.py").write_text(CALL)
    shape, *log = project.run(f"python {tmp_path / 'call.py'}").splitlines()
    assert shape == "(32, 4)"
    assert any("editable install" in line for line in log)
    manifest = project.root / "aot.yaml"
    manifest.write_text(manifest.read_text().replace("  score:", "  points:"))
    assert "mypkg" in project.run("uv sync")
    (tmp_path / "call.py").write_text(CALL.replace("score", "points"))
    assert project.run(f"python {tmp_path / 'call.py'}").startswith("(32, 4)\n")


def test_a_lock_needs_no_compiler(project: Project) -> None:
    printed = project.run("uv lock --verbose")
    names = re.findall(r'^name = "(\w+)"', (project.root / "uv.lock").read_text(), re.MULTILINE)
    assert {"aotbuild", "jax", "jaxlib"} <= set(names)
    assert COMPILED.findall(printed) == []
    # What was looked for is what a build prints.
    assert len(COMPILED.findall(project.run("uv build --wheel"))) == 2
