"""An edit after the executables were made, and before hatchling packs the sources."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from support.projects import ONE_FUNCTION, PYPROJECT, write_project

pytestmark = [pytest.mark.process, pytest.mark.any_jax]

# Hooks run in the order of their tables.
LATER = "\n[tool.hatch.build.targets.wheel.hooks.custom]\n"
HOOK = """\
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Edits(BuildHookInterface):
    def initialize(self, version, build_data):
        path = Path(self.root, "proj", "code.py")
        path.write_text({text!r})
"""
CODE = "def f(x):\n    return x + 1\n"


def wheel(root: Path) -> subprocess.CompletedProcess[str]:
    """Have hatchling build a wheel into `dist`."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


def test_an_edit_after_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the store has the finished build; the same text again is no edit."""
    monkeypatch.setenv("AOTBUILD_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("AOTBUILD_DIRECT", "on")
    root = write_project(tmp_path / "here", ONE_FUNCTION, code=CODE)
    (root / "pyproject.toml").write_text(PYPROJECT + LATER)
    # Of another size: bytecode of hatch_build.py may be of the same second.
    edited = CODE.replace("1", "20")
    for text in (edited, CODE, edited):
        (root / "proj" / "code.py").write_text(CODE)
        (root / "hatch_build.py").write_text(HOOK.format(text=text))
        ended = wheel(root)
        found = [path.name for path in root.glob("dist/*")]
        if text == CODE:
            assert (ended.returncode, len(found)) == (0, 1), ended.stderr
            continue
        assert ended.returncode == 1
        said = "aotbuild: proj/code.py was edited during the build; nothing was packaged"
        assert said in ended.stdout + ended.stderr
        assert found == []


GENERATES = """\
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Generates(BuildHookInterface):
    @property
    def path(self):
        return Path(self.root, "proj", "made.py")

    def initialize(self, version, build_data):
        self.path.write_text("K = 3.0\\n")
        {select}

    def finalize(self, version, build_data, artifact_path):
        self.path.unlink()
"""


@pytest.mark.parametrize("shipped", [True, False])
def test_a_hook_that_removes_what_it_generated(tmp_path: Path, shipped: bool) -> None:
    """It comes after the packing, so the wheel has what was compiled. It was taken for an edit."""
    code = "from proj.made import K\ndef f(x):\n    return x * K\n"
    root = write_project(tmp_path / "here", ONE_FUNCTION, code=code)
    # Hooks of all targets come first.
    (root / "pyproject.toml").write_text(PYPROJECT + "\n[tool.hatch.build.hooks.custom]\n")
    select = 'build_data["artifacts"].append("/proj/made.py")' if shipped else ""
    (root / "hatch_build.py").write_text(GENERATES.format(select=select))
    (root / ".gitignore").write_text("made.py\n")
    ended = wheel(root)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (found,) = root.glob("dist/*.whl")
    assert ("proj/made.py" in ZipFile(found).namelist()) == shipped


REPLACES = """\
from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Replaces(BuildHookInterface):
    def initialize(self, version, build_data):
        build_data["force_include"]["made/k.py"] = "proj/k.py"
"""
FORCED = """
[tool.hatch.build.targets.wheel.force-include]
"made/k.py" = "proj/k.py"
"""


@pytest.mark.parametrize(
    "way", [FORCED, "\n[tool.hatch.build.hooks.custom]\n"], ids=["file", "hook"]
)
@pytest.mark.parametrize("made", ["K = 8.0\n", "K = 3.0\n"], ids=["other", "same"])
def test_another_file_is_packed_in_the_place_of_a_module(
    tmp_path: Path, way: str, made: str
) -> None:
    code = "from proj.k import K\ndef f(x):\n    return x * K\n"
    root = write_project(tmp_path / "here", ONE_FUNCTION, code=code, k="K = 3.0\n")
    (root / "pyproject.toml").write_text(PYPROJECT + way)
    (root / "hatch_build.py").write_text(REPLACES)
    (root / ".gitignore").write_text("proj/k.py\n")
    (root / "made").mkdir()
    (root / "made" / "k.py").write_text(made)
    ended = wheel(root)
    if made == "K = 3.0\n":
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return
    assert ended.returncode == 1
    said = "the wheel would have another proj/k.py than what was compiled; nothing was packaged"
    assert said in ended.stdout + ended.stderr
    assert [*root.glob("dist/*")] == []
