"""A wheel never holds executables of an earlier build that are older than their sources."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from support.cli import run
from support.projects import ONE_FUNCTION, PYPROJECT, write_project

pytestmark = [pytest.mark.process, pytest.mark.any_jax]

OLD, NEW = "def f(x):\n    return x + 1\n", "def f(x):\n    return x + 100\n"
# As pip calls the backend.
BACKEND = "import sys, hatch_aotbuild.backend as b; print(b.build_wheel(sys.argv[1]))"
OFF = PYPROJECT + "enable-by-default = false\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose package was built in place."""
    root = write_project(tmp_path / "here", ONE_FUNCTION, code=OLD)
    (root / "pyproject.toml").write_text(PYPROJECT)
    monkeypatch.chdir(root)
    run("build", "--in-place")
    return root


def wheel(root: Path) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Have the backend make a wheel; return how it ended, and the indices in the wheel."""
    command = [sys.executable, "-c", BACKEND, str(root / "dist")]
    (root / "dist").mkdir(exist_ok=True)
    ended = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    found = [ZipFile(path).namelist() for path in root.glob("dist/*.whl")]
    return ended, [name for names in found for name in names if name.endswith("_aot/index")]


def test_the_hook_is_switched_off(root: Path) -> None:
    """What is as its sources say is shipped; what is older was shipped, too."""
    (root / "pyproject.toml").write_text(OFF)
    ended, indices = wheel(root)
    assert (ended.returncode, indices) == (0, ["proj/_aot/index"]), ended.stderr
    for path in root.glob("dist/*"):
        path.unlink()
    (root / "proj" / "code.py").write_text(NEW)
    ended, indices = wheel(root)
    assert (ended.returncode, indices) == (1, [])
    said = "proj/_aot is of an earlier build, and older than its sources: proj/code.py"
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not [*root.glob("dist/*")]


def test_the_package_is_another_one_now(root: Path) -> None:
    """The wheel had both, and `load` of the old name gave old numbers."""
    (root / "proj" / "made").mkdir()
    (root / "proj" / "made" / "__init__.py").touch()
    text = ONE_FUNCTION.replace("package: proj", "package: proj.made")
    (root / "aot.yaml").write_text(text)
    (root / "proj" / "code.py").write_text(NEW)
    ended, indices = wheel(root)
    assert (ended.returncode, indices) == (1, [])
    assert "proj/_aot is of an earlier build" in ended.stdout + ended.stderr
    run("build", "--in-place")
    (root / "proj" / "_aot" / "index").write_bytes(b"damaged")
    ended, indices = wheel(root)
    assert (ended.returncode, indices) == (1, [])
    assert "proj/_aot cannot be read" in ended.stdout + ended.stderr


def test_two_packages_with_executables(root: Path) -> None:
    """The hook makes one of them; the other is what its sources say."""
    other = root / "other"
    other.mkdir()
    (other / "__init__.py").touch()
    (other / "code.py").write_text(NEW)
    text = ONE_FUNCTION.replace("proj", "other")
    (root / "other.yaml").write_text(text)
    run("build", root / "other.yaml", "--in-place")
    both = PYPROJECT.replace('packages = ["proj"]', 'packages = ["proj", "other"]')
    (root / "pyproject.toml").write_text(both)
    ended, indices = wheel(root)
    assert ended.returncode == 0, ended.stderr
    assert sorted(indices) == ["other/_aot/index", "proj/_aot/index"]
