"""What of a requirement could be more than one to uv: other lines, options, and the environment."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest
from support.fake_index import NEW, OLD
from support.fake_index import index as index  # a fixture
from support.manifests import whole
from support.projects import write_project

from aotbuild.errors import PlanError
from aotbuild.manifest import load_manifest
from aotbuild.toolchains.environments import find_environment
from aotbuild.toolchains.project import project_requirements

BREAKS = ["\n", "\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "\x00", "\x7f", "\u00a0"]
SECRET = "s3cr3t-token"


def project(root: Path, text: str, extra: str = f"toolchains: [{{jax: {OLD}}}]\n") -> Path:
    """Write a project with a pyproject.toml; return its manifest."""
    write_project(root, whole(extra).replace("package: p", "package: proj"), code="")
    (root / "pyproject.toml").write_text(text)
    return root / "aot.yaml"


def resolve(manifest: Path, *dependencies: str) -> str:
    """Return why a project with these dependencies is refused."""
    with pytest.raises(PlanError) as caught:
        find_environment(load_manifest(manifest), dependencies)
    return str(caught.value)


OTHER = OLD if metadata.version("jax") == NEW else NEW
UNMET = f"toolchains: [{{jax: {OTHER}}}]\n"


class TestOfTheProject:
    @pytest.mark.parametrize("character", [*BREAKS, "$", "\\"], ids=ascii)
    def test_other_lines_and_variables(self, index: Path, tmp_path: Path, character: str) -> None:
        manifest = project(tmp_path / "p", "", UNMET)
        found = resolve(manifest, f"foo @ https://x.org/f.whl{character}-r=/etc/passwd")
        assert "toolchains.0" in found
        assert "the requirement 'foo @ https" in found

    def test_a_lock_of_an_earlier_run_does_not_hide_it(self, index: Path, tmp_path: Path) -> None:
        manifest = project(tmp_path / "p", "", UNMET)
        (tmp_path / "toolchains").mkdir()
        resolve(manifest, "foo @ https://x.org/${TOKEN}")
        assert not list((tmp_path / "toolchains").rglob("pylock.toml"))


HEAD = """
[project]
name = "proj"
version = "1"
[tool.hatch.metadata]
allow-direct-references = true
"""


class TestVariablesOfHatchling:
    def test_a_build_does(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TOKEN", SECRET)
        listed = 'dependencies = ["foo @ https://x.org/{env:TOKEN}/f.whl"]'
        root = project(tmp_path / "p", HEAD.replace("[tool", f"{listed}\n[tool", 1)).parent
        (found,) = project_requirements(root)
        assert found.endswith(f"https://x.org/{SECRET}/f.whl")
