"""What of a project other machines get, and how they keep it."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from aotbuild.build.executors import bundle
from aotbuild.build.executors.bundle import Bundle, bundled_files, make_bundle, unpacked
from aotbuild.build.sources import SourceTree, find_sources
from aotbuild.errors import PlanError


def write(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return root


def found(root: Path) -> set[str]:
    return {path.as_posix() for path in bundled_files(root)}


def project(root: Path, *names: str) -> SourceTree:
    return find_sources(write(root, "src/proj/__init__.py", *names), "proj")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AOTBUILD_TOOLCHAINS", str(tmp_path / "cache"))
    return tmp_path / "cache" / "projects"


# --- which files ----------------------------------------------------------------------------------


def test_secrets_environments_and_what_tools_write_stay_here(tmp_path: Path) -> None:
    wanted = {"pyproject.toml", "src/proj/m.py", "src/proj/build/x.py", "data/w.npz"}
    left = {".env", ".git/config", "src/.cache/x", "src/proj/__pycache__/m.pyc", "build/lib/m.py"}
    left |= {"dist/proj.whl", "venv/pyvenv.cfg", "venv/lib/x.py", "src/proj/_aot/index"}
    assert found(write(tmp_path, *wanted, *left)) == wanted


def test_a_package_may_be_named_as_what_tools_write(tmp_path: Path) -> None:
    names = {"build/__init__.py", "build/m.py", "dist/m.py"}
    assert found(write(tmp_path, *names)) == names - {"dist/m.py"}


def test_gitignore_leaves_out_all_but_modules(tmp_path: Path) -> None:
    write(tmp_path, "proj/_version.py", "proj/fast.so", "proj/log.txt", "data/big.npz", "data/m.py")
    (tmp_path / ".gitignore").write_text("_version.py\n*.so\n*.txt\n/data/\n")
    assert found(tmp_path) == {"proj/_version.py", "proj/fast.so"}


def test_the_deepest_gitignore_decides(tmp_path: Path) -> None:
    write(tmp_path, "a/x.txt", "a/y.txt", "x.txt")
    (tmp_path / ".gitignore").write_text("*.txt\n")
    (tmp_path / "a" / ".gitignore").write_text("!x.txt\n")
    assert found(tmp_path) == {"a/x.txt"}


def test_our_own_rules_win(tmp_path: Path) -> None:
    write(tmp_path, "weights/w.npz", "weights/old.npz", "proj/huge.py", "notes.md")
    (tmp_path / ".gitignore").write_text("weights/\n")
    (tmp_path / ".aotbuildignore").write_text("!weights/\n/weights/old.npz\nhuge.py\n*.md\n")
    assert found(tmp_path) == {"weights/w.npz"}


def test_links_are_followed_once(tmp_path: Path) -> None:
    write(tmp_path / "p", "proj/m.py")
    write(tmp_path / "common", "c.py")
    (tmp_path / "p" / "common").symlink_to(tmp_path / "common")
    (tmp_path / "common" / "again").symlink_to(tmp_path / "p")
    (tmp_path / "p" / "gone").symlink_to(tmp_path / "nothing")
    assert found(tmp_path / "p") == {"proj/m.py", "common/c.py"}


def test_too_much_is_refused_with_the_largest_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = project(tmp_path, "data/a.bin")
    (tmp_path / "data" / "a.bin").write_bytes(bytes(3_000_000))
    monkeypatch.setattr(bundle, "LIMIT", 2_000_000)
    with pytest.raises(PlanError) as caught:
        make_bundle(sources)
    assert str(caught.value) == (
        f"{tmp_path}: other machines would get 3 MB of this project, more than 2 MB; its largest "
        "files:\n  3.0 MB  data/a.bin\n  0.0 MB  src/proj/__init__.py\nList what the build does "
        "not read in .aotbuildignore, as in a .gitignore."
    )


def test_a_package_elsewhere_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "other", "proj/__init__.py")
    (tmp_path / "root").mkdir()
    sources = SourceTree(tmp_path / "root", tmp_path / "other", "proj")
    with pytest.raises(PlanError, match=r"proj is imported from .*other; build in a folder that"):
        make_bundle(sources)


def test_equal_projects_have_equal_archives(tmp_path: Path) -> None:
    made = [project(tmp_path / name, "src/proj/m.py", "run") for name in "ab"]
    (tmp_path / "b" / "run").touch()
    os.utime(tmp_path / "a" / "run", (1, 1))
    assert len({make_bundle(sources).digest for sources in made}) == 1
    (tmp_path / "b" / "run").chmod(0o755)
    assert len({make_bundle(sources).digest for sources in made}) == 2


# --- on the machine that gets it ------------------------------------------------------------------


def bundled(root: Path) -> Bundle:
    return make_bundle(project(root, "src/proj/m.py", "run"))


def test_it_is_unpacked_once_by_any_number_of_processes(tmp_path: Path, cache: Path) -> None:
    made = bundled(tmp_path / "p")
    (tmp_path / "p" / "run").chmod(0o755)
    made = make_bundle(find_sources(tmp_path / "p", "proj"))
    assert unpacked(made.digest, None) is None
    with ThreadPoolExecutor(8) as threads:
        places = {*threads.map(lambda _: unpacked(made.digest, made.data), range(32))}
    assert places == {cache / made.digest}
    assert unpacked(made.digest, None) == cache / made.digest
    assert (cache / made.digest / "src/proj/m.py").read_text() == "src/proj/m.py"
    assert os.access(cache / made.digest / "run", os.X_OK)
    assert not os.access(cache / made.digest / "src/proj/m.py", os.X_OK)
    assert [path.name for path in cache.iterdir()] == [made.digest]


def test_a_damaged_archive_is_refused(tmp_path: Path, cache: Path) -> None:
    made = bundled(tmp_path / "p")
    with pytest.raises(PlanError, match="the project's source arrived damaged: its SHA-256 is not"):
        unpacked(made.digest, made.data[:-1])
    assert not cache.exists()


def test_what_nobody_used_for_long_is_removed(tmp_path: Path, cache: Path) -> None:
    old, new = bundled(tmp_path / "p"), make_bundle(project(tmp_path / "q", "other"))
    assert unpacked(old.digest, old.data) is not None
    long_ago = time.time() - 8 * 24 * 3600
    os.utime(cache / old.digest, (long_ago, long_ago))
    assert unpacked(old.digest, None) == cache / old.digest  # used again
    os.utime(cache / old.digest, (long_ago, long_ago))
    assert unpacked(new.digest, new.data) is not None
    assert [path.name for path in cache.iterdir()] == [new.digest]
