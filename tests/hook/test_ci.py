"""What GitHub gets from a wheel's build, whose output pip hides."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.installs import build_wheel
from support.projects import copy_project

pytestmark = [pytest.mark.wheel, pytest.mark.any_jax]

EXAMPLE = "../../example_project"


def github(root: Path) -> dict[str, str]:
    return {
        "GITHUB_ACTIONS": "true",
        "GITHUB_WORKSPACE": str(root),
        "GITHUB_STEP_SUMMARY": str(root / "summary.md"),
    }


def refused(project: Path) -> list[str]:
    """Return the annotations of a build that fails."""
    with pytest.raises(subprocess.CalledProcessError) as caught:
        build_wheel(project, project / "dist", **github(project))
    # GitHub's runner takes lines that begin with spaces, too.
    lines = (line.strip() for line in caught.value.output.splitlines())
    return [line for line in lines if line.startswith("::")]


def test_a_wrong_manifest(tmp_path: Path) -> None:
    project = copy_project(EXAMPLE, tmp_path)
    manifest = project / "aot.yaml"
    manifest.write_text(f"{manifest.read_text()}colour: red\n")
    (line,) = refused(project)
    last = len(manifest.read_text().splitlines())
    where = f"title=aotbuild build,file=aot.yaml,line={last},col=1"
    assert line.startswith(f"::error {where}::unknown key 'colour'")
    assert "unknown key 'colour'" in (project / "summary.md").read_text()


def test_wrong_options(tmp_path: Path) -> None:
    project = copy_project(EXAMPLE, tmp_path)
    pyproject = project / "pyproject.toml"
    pyproject.write_text(pyproject.read_text().replace('manifest = "aot.yaml"', "manifest = 1"))
    (line,) = refused(project)
    assert line.startswith("::error title=aotbuild build::[tool.hatch.build.targets.wheel.hooks.a")


def test_a_function_that_fails(tmp_path: Path) -> None:
    project = copy_project(EXAMPLE, tmp_path)
    model = project / "digits" / "model.py"
    source = model.read_text()
    wrong = '    assert x.sum() > 0\n    return jax.nn.relu(_dense(params["hidden"]'
    model.write_text(source.replace('    return jax.nn.relu(_dense(params["hidden"]', wrong))
    number = model.read_text().splitlines().index("    assert x.sum() > 0") + 1
    (line,) = refused(project)
    assert line.startswith(f"::error title=aotbuild build,file=digits/model.py,line={number}::")
    assert "TracerBoolConversionError" in line
    model.write_text(source)
    (project / "summary.md").unlink()
    wheel = build_wheel(project, project / "dist", **github(project))
    lines = (project / "summary.md").read_text().splitlines()
    assert lines[0] == "### aotbuild build"
    assert sum("] done: " in each for each in lines) == 16
    assert wheel.name in lines
