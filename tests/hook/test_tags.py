"""The tag of a wheel with executables and an extension module of another hook."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from packaging.tags import sys_tags
from support.projects import ONE_FUNCTION, PYPROJECT, write_project

from aotbuild.build.wheel_metadata import tag_for_all

# Stands for a hook that compiles an extension module.
HOOK = """\
from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Extension(BuildHookInterface):
    def initialize(self, version, build_data):
        build_data["pure_python"] = False
        build_data[{key!r}] = {value!r}
"""
FIRST = PYPROJECT.replace(
    "[tool.hatch.build.targets.wheel.hooks.aotbuild]",
    "[tool.hatch.build.targets.wheel.hooks.custom]\n"
    "[tool.hatch.build.targets.wheel.hooks.aotbuild]",
)


def built(
    folder: Path, pyproject: str, key: str, value: object
) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Have hatchling build a wheel; return how it ended, and the tags of wheels."""
    root = write_project(folder / "here", ONE_FUNCTION, code="def f(x):\n    return x\n")
    (root / "pyproject.toml").write_text(pyproject)
    (root / "hatch_build.py").write_text(HOOK.format(key=key, value=value))
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
    ended = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    return ended, [path.stem.split("-", 2)[2] for path in root.glob("dist/*")]


@pytest.mark.process
def test_a_tag_that_is_inferred(tmp_path: Path) -> None:
    """A wheel for any Python had an extension module for one."""
    ended, tags = built(tmp_path, FIRST, "infer_tag", True)
    assert ended.returncode == 0, ended.stderr
    (tag,) = tags
    assert tag in map(str, sys_tags())
    assert tag.startswith(f"cp3{sys.version_info.minor}-cp3{sys.version_info.minor}-linux_")


@pytest.mark.parametrize(
    ("asked", "tag"),
    [
        ("cp311-abi3-manylinux_2_35_x86_64", "cp311-abi3-manylinux_2_35_x86_64"),
        ("cp311-none-any", "cp311-none-manylinux_2_27_x86_64"),
        ("", "py3-none-manylinux_2_27_x86_64"),
    ],
)
def test_a_tag_of_a_hook_before(asked: str, tag: str) -> None:
    assert tag_for_all("py3-none-manylinux_2_27_x86_64", {"tag": asked}, str) == tag
