"""Plans work out no version of the project: code of the project, or a command, may say it."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest
from support.cli import run
from support.fake_index import NEW, OLD
from support.fake_index import index as index  # a fixture
from support.manifests import whole
from support.projects import write_project

from aotbuild.errors import PlanError
from aotbuild.toolchains.project import project_requirements

pytestmark = pytest.mark.process

OTHER = OLD if metadata.version("jax") == NEW else NEW
# A plugin as people install them: a hook that reads the project, and a source that runs a command.
PLUGIN = """
import pathlib
import subprocess

from hatchling.metadata.plugin.interface import MetadataHookInterface
from hatchling.plugin import hookimpl
from hatchling.version.source.plugin.interface import VersionSourceInterface


class Hook(MetadataHookInterface):
    PLUGIN_NAME = "plug"

    def update(self, metadata):
        metadata["readme"] = {"text": "hello", "content-type": "text/markdown"}
        if needs := self.config.get("needs"):
            metadata["dependencies"] = [needs.format(version=metadata.get("version"))]


class Source(VersionSourceInterface):
    PLUGIN_NAME = "plug"

    def get_version_data(self):
        return {"version": subprocess.check_output(self.config["command"], text=True).strip()}


@hookimpl
def hatch_register_metadata_hook():
    return Hook


@hookimpl
def hatch_register_version_source():
    return Source
"""
PYPROJECT = """
[project]
name = "proj"
dynamic = ["dependencies", "version", "readme"]
[tool.hatch.metadata.hooks.plug]
needs = "{needs}"
[tool.hatch.metadata.hooks.aotbuild]
dependencies = ["numpy"]
[tool.hatch.version]
{version}
"""
VERSIONS = {
    "code": 'source = "code"\npath = "version.py"\n',
    "a command": 'source = "plug"\ncommand = ["sh", "-c", "touch ran; echo 1"]\n',
}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose code writes `ran`, in an environment with the plugin."""
    site = tmp_path / "site"
    (site / "plug-1.dist-info").mkdir(parents=True)
    (site / "plug_of_hatch.py").write_text(PLUGIN)
    (site / "plug-1.dist-info" / "METADATA").write_text("Name: plug\nVersion: 1\n")
    (site / "plug-1.dist-info" / "entry_points.txt").write_text("[hatch]\nplug = plug_of_hatch\n")
    monkeypatch.syspath_prepend(site)
    manifest = whole(f"toolchains: [{{jax: {OTHER}}}]\n").replace("package: p", "package: proj")
    root = write_project(tmp_path / "here", manifest, code="")
    (root / "version.py").write_text(
        "__import__('pathlib').Path('ran').touch()\n__version__ = '1'\n"
    )
    monkeypatch.chdir(root)
    return root


def write(root: Path, name: str, needs: str = "einops") -> None:
    (root / "pyproject.toml").write_text(PYPROJECT.format(version=VERSIONS[name], needs=needs))


@pytest.mark.parametrize("name", VERSIONS)
def test_no_plan_runs_it(index: Path, root: Path, name: str) -> None:
    write(root, name)
    run("plan", root / "aot.yaml")
    run("lock", root / "aot.yaml")
    run("lock", root / "aot.yaml", "--check")
    assert not (root / "ran").exists()
    assert project_requirements(root, run_code=False) == ("einops", "numpy")


@pytest.mark.parametrize("name", ["code", "a command"])
def test_a_build_runs_it(root: Path, name: str) -> None:
    write(root, name)
    assert project_requirements(root) == ("einops", "numpy")
    assert (root / "ran").exists()


def test_dependencies_that_need_it_are_refused(root: Path) -> None:
    write(root, "code", "einops=={version}")
    assert project_requirements(root) == ("einops==1", "numpy")
    (root / "ran").unlink()
    with pytest.raises(PlanError) as caught:
        project_requirements(root, run_code=False)
    assert "names the version of the project, which code may have to say" in str(caught.value)
    assert not (root / "ran").exists()
