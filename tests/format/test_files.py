"""Writing files as a whole: what is there afterwards, and after a failure."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from aotbuild.format.files import move_whole, write_whole


def test_it_writes_and_replaces_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, b"old")
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_new_file_can_be_read_as_the_umask_allows(tmp_path: Path) -> None:
    path, plain = tmp_path / "file", tmp_path / "plain"
    write_whole(path, b"")
    plain.touch(0o644)
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_a_name_may_be_as_long_as_the_system_allows(tmp_path: Path) -> None:
    path = tmp_path / ("é" * 127)
    write_whole(path, b"data")
    assert path.read_bytes() == b"data"


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(OSError, match="folder"):
        write_whole(folder, b"data")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_finished_file_takes_the_place_of_another(tmp_path: Path) -> None:
    finished, path = tmp_path / "finished", tmp_path / "file"
    finished.write_bytes(b"new")
    finished.chmod(0o400)
    path.write_bytes(b"old")
    move_whole(finished, path)
    assert path.read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
