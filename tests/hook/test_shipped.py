"""Wheels hold the package of their own build alone, whatever of an earlier one is selected."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest
from support.installs import build_wheel
from support.projects import ONE_FUNCTION, PYPROJECT, write_project

from hatch_aotbuild import backend

pytestmark = pytest.mark.wheel

STALE = ("index", "blobs/old.safetensors", "blobs/old.bin")
SELECTED = ("[tool.hatch.build]", 'artifacts = ["*.safetensors", "proj/_aot/", "index", "_aot"]')


def project(root: Path, table: str, line: str) -> Path:
    """Write a project with leftovers of an earlier build, some of which its table selects."""
    write_project(root, ONE_FUNCTION, code="def f(x):\n    return x\n")
    text = PYPROJECT if table in PYPROJECT else f"{PYPROJECT}{table}\n"
    (root / "pyproject.toml").write_text(text.replace(f"{table}\n", f"{table}\n{line}\n"))
    for name in STALE:
        place = root / "proj" / "_aot" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("stale")
    left = root / "proj" / ".aotbuild-tmp-killed" / "file"
    left.parent.mkdir()
    left.write_text("stale")
    (root / "proj" / "own.safetensors").write_text("own")
    (root / ".gitignore").write_text("_aot/\n*.safetensors\n")
    return root


def files_of(wheel: Path) -> list[str]:
    with ZipFile(wheel) as archive:
        assert not [name for name in archive.namelist() if archive.read(name) == b"stale"]
        return archive.namelist()


def test_a_wheel(tmp_path: Path) -> None:
    names = files_of(build_wheel(project(tmp_path / "p", *SELECTED), tmp_path / "out"))
    assert len(names) == len(set(names))
    assert "proj/_aot/index" in names
    assert "proj/own.safetensors" in names
    assert not [name for name in names if "old" in name]


def test_a_wheel_of_other_names_for_folders(tmp_path: Path) -> None:
    line = 'artifacts = ["*.safetensors"]\nsources = {"proj" = "lib/proj"}'
    root = project(tmp_path / "p", "[tool.hatch.build.targets.wheel]", line)
    names = files_of(build_wheel(root, tmp_path / "out"))
    assert "lib/proj/_aot/index" in names
    assert not [name for name in names if "old" in name]


def test_an_editable_wheel(tmp_path: Path) -> None:
    root = project(tmp_path / "p", *SELECTED)
    code = f"from hatch_aotbuild.backend import build_editable as b; b({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert [name for name in files_of(wheel) if "_aot" in name] == ["proj/_aot/index"]


def test_a_source_distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project(tmp_path / "p", *SELECTED))
    with tarfile.open(tmp_path / backend.build_sdist(str(tmp_path))) as archive:
        names = archive.getnames()
    assert [name for name in names if name.endswith("proj/own.safetensors")]
    assert not [name for name in names if "_aot" in name or ".aotbuild" in name]
