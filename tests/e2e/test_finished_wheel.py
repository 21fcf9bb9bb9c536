"""A wheel of a finished build in the store is the wheel that a whole build makes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support.installs import pip
from support.projects import PYPROJECT, write_project

pytestmark = [pytest.mark.wheel, pytest.mark.any_jax]

MANIFEST = """
version: 1
package: proj
targets: [cpu, {portable: {platforms: [cpu]}}]
functions:
  f:
    call: proj.model:f
    args: [x: "f32[n]"]
    dims: {n: [2, 4]}
    pad: {n: 0.0}
  g:
    call: proj.model:g
    args: [x: "f32[4]"]
    constants: hoist
"""
NAMED = """
version: 1
package: proj
functions:
  f: {call: "proj.model:f", args: [x: {file: trees.json, name: x}]}
"""
TREES = '{"version": 1, "trees": {"x": {"leaves": ["f32[4]"], "tree": "*"}}}'
MODEL = """
import numpy as np

W = np.arange(4096, dtype="float32").reshape(4, 1024)
def f(x): return x * 2
def g(x): return x @ W
"""


def build(project: Path, out: Path, **env: str) -> tuple[bytes, str]:
    """Build a wheel with pip; return its bytes and what pip logged."""
    out.mkdir()
    options = ("--no-deps", "--no-build-isolation", "--log", out / "log", "-w", out)
    pip(sys.executable, "wheel", *options, project, links=out, **env)
    (wheel,) = out.glob("*.whl")
    return wheel.read_bytes(), (out / "log").read_text()


def test_bytes_and_words(tmp_path: Path) -> None:
    project = write_project(tmp_path / "project", MANIFEST, model=MODEL)
    (project / "pyproject.toml").write_text(PYPROJECT)
    store = {"AOTBUILD_STORE": str(tmp_path / "store"), "AOTBUILD_DIRECT": "on"}
    plain, _ = build(project, tmp_path / "plain")
    first, said = build(project, tmp_path / "first", **store)
    assert ", from the store)" not in said
    again, said = build(project, tmp_path / "again", **store)
    assert plain == first == again
    assert said.count(", from the store)") == 6
    assert "6 units: 6 from the store (6 without tracing)" in said
    # Not even the plan was made: it would have read the manifest.
    entries = [path for path in (tmp_path / "store" / "v2").rglob("*") if path.is_file()]
    for path in entries:
        if b'"entry":"direct ' in path.read_bytes():
            path.unlink()
    again, said = build(project, tmp_path / "without", **store)
    assert plain == again
    assert said.count(", from the store)") == 6

    (project / "proj" / "model.py").write_text(MODEL.replace("* 2", "* 3"))
    edited, said = build(project, tmp_path / "edited", **store)
    assert "5 compiled" in said
    assert edited == build(project, tmp_path / "edited plain")[0] != plain


def test_an_edit_of_a_file_that_the_manifest_names(tmp_path: Path) -> None:
    """pip runs the metadata hook first: it takes note of the edit, and the build sees it still."""
    project = write_project(tmp_path / "project", NAMED, model=MODEL)
    (project / "pyproject.toml").write_text(PYPROJECT)
    (project / "trees.json").write_text(TREES)
    store = {"AOTBUILD_STORE": str(tmp_path / "store"), "AOTBUILD_DIRECT": "on"}
    first, _ = build(project, tmp_path / "first", **store)
    (project / "trees.json").write_text(TREES.replace("[4]", "[6]"))
    edited, said = build(project, tmp_path / "edited", **store)
    assert "1 compiled" in said
    assert edited == build(project, tmp_path / "edited plain")[0] != first
