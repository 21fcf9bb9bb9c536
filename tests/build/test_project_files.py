"""What of a project other machines get."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

import pytest

from aotbuild.build import project_files
from aotbuild.build.project_files import pack_project, unpack_project
from aotbuild.errors import PlanError


def write(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return root


def found(root: Path) -> set[str]:
    with zipfile.ZipFile(io.BytesIO(pack_project(root))) as archive:
        return set(archive.namelist())


def test_secrets_environments_and_what_tools_write_stay_here(tmp_path: Path) -> None:
    wanted = {"pyproject.toml", "src/proj/m.py", "src/proj/build/x.py", "data/w.npz"}
    left = {".env", ".git/config", "src/.cache/x", "src/proj/__pycache__/m.pyc", "build/lib/m.py"}
    left |= {"dist/proj.whl", "venv/pyvenv.cfg", "venv/lib/x.py", "src/proj/_aot/index"}
    assert found(write(tmp_path, *wanted, *left)) == wanted


def test_gitignore_leaves_out_all_but_modules(tmp_path: Path) -> None:
    write(tmp_path, "proj/_version.py", "proj/fast.so", "proj/log.txt", "data/big.npz", "data/m.py")
    (tmp_path / ".gitignore").write_text("_version.py\n*.so\n*.txt\n/data/\n")
    assert found(tmp_path) == {"proj/_version.py", "proj/fast.so", "data/m.py"}


def test_links_are_followed_once(tmp_path: Path) -> None:
    write(tmp_path / "p", "proj/m.py")
    write(tmp_path / "common", "c.py")
    (tmp_path / "p" / "common").symlink_to(tmp_path / "common")
    (tmp_path / "common" / "again").symlink_to(tmp_path / "p")
    (tmp_path / "p" / "gone").symlink_to(tmp_path / "nothing")
    assert found(tmp_path / "p") == {"proj/m.py", "common/c.py"}


def test_a_folder_has_its_own_path_also_where_a_link_leads_to_it(tmp_path: Path) -> None:
    write(tmp_path, "src/pkg/m.py", "src/pkg/sub/n.py")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "pkg").symlink_to(tmp_path / "src" / "pkg")
    (tmp_path / "src" / "pkg" / "loop").symlink_to(tmp_path / "src")
    assert {"src/pkg/m.py", "src/pkg/sub/n.py"} <= found(tmp_path)


def test_too_much_is_refused_with_the_largest_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "proj/m.py", "data/a.bin")
    (tmp_path / "data" / "a.bin").write_bytes(bytes(3_000_000))
    monkeypatch.setattr(project_files, "LIMIT", 2_000_000)
    with pytest.raises(PlanError) as caught:
        pack_project(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}: other machines would get 3 MB of this project, more than 2 MB; its largest "
        "files:\n  3.0 MB  data/a.bin\n  0.0 MB  proj/m.py\nList what the build does "
        "not read in .gitignore."
    )


def test_files_come_back_as_they_were(tmp_path: Path) -> None:
    write(tmp_path / "p", "proj/m.py", "run")
    (tmp_path / "p" / "run").chmod(0o755)
    unpack_project(pack_project(tmp_path / "p"), tmp_path / "q")
    assert (tmp_path / "q/proj/m.py").read_text() == "proj/m.py"
    assert os.access(tmp_path / "q/run", os.X_OK)
    assert not os.access(tmp_path / "q/proj/m.py", os.X_OK)
