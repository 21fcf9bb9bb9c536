"""Builders that share one store at the same time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.cli import invoke
from support.installs import tree_of
from support.processes import clean_environment
from support.projects import write_project

# All have `shared`, so builds of different projects write the same entries, too.
MANIFEST = """
version: 1
package: proj
targets: [cpu, {{portable: {{platforms: [cpu]}}}}]
functions:
  shared:
    call: "proj.m:shared"
    args: [x: "f32[4]"]
    constants: hoist
    verify: {{golden: always}}
  {name}: {{call: "proj.m:{name}", args: [x: "f32[8]"], verify: {{golden: always}}}}
"""
SOURCE = """
import numpy as np

TABLE = np.arange(64, dtype=np.float32)


def shared(x):
    return x.sum() + TABLE


def {name}(x):
    return x * {factor}
"""
# The project of each builder, and where it puts its `_aot`: two of them in the same place.
BUILDERS = [
    *(("one", f"one-{number}") for number in range(4)),
    *(("two", "two-0"), ("two", "two-0"), ("two", "two-1"), ("three", "three-0")),
]


@pytest.mark.process
@pytest.mark.any_jax
def test_eight_builders_at_once(tmp_path: Path) -> None:
    projects = {
        name: write_project(
            tmp_path / name,
            MANIFEST.format(name=name),
            m=SOURCE.format(name=name, factor=number + 2),
        )
        for number, name in enumerate(("one", "two", "three"))
    }
    expected = {}
    for name, project in projects.items():
        finish(start(project, tmp_path / "alone" / name))
        expected[name] = tree_of(tmp_path / "alone" / name)
    store = tmp_path / "store"
    (temporary := tmp_path / "tmp").mkdir()
    started = [
        start(projects[name], tmp_path / "out" / place, str(store), TMPDIR=str(temporary))
        for name, place in BUILDERS
    ]
    for process in started:
        assert str(store) not in finish(process)
    for name, place in BUILDERS:
        assert tree_of(tmp_path / "out" / place) == expected[name]
    verified = invoke("store", "verify", str(store), "--json")
    document = json.loads(verified.stdout)
    assert (verified.exit_code, document["failures"]) == (0, [])
    assert document["checked"] > len(projects)
    assert [*temporary.iterdir(), *store.rglob(".*"), *(tmp_path / "out").rglob(".*")] == []


def start(project: Path, out: Path, store: str = "off", **env: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "aotbuild", "build", "--out", str(out / "_aot")]
    return subprocess.Popen(
        [*command, "--jobs", "1", str(project / "aot.yaml")],
        env=clean_environment(AOTBUILD_STORE=store, **env),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> str:
    """Wait for a build, which must succeed; return its progress and its warnings."""
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    return said
