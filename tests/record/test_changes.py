"""Files that are changed together: all or none."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from aotbuild.errors import ProjectError
from aotbuild.record import changes as authoring_changes
from aotbuild.record.changes import FileChange, read_text, write_together


def texts(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


@pytest.fixture
def changes(tmp_path: Path) -> list[FileChange]:
    """A new file, and one that is there."""
    (tmp_path / "old").write_text("1\n")
    (tmp_path / "old").chmod(0o640)
    return [
        FileChange(tmp_path / "new", None, "a\r\n"),
        FileChange(tmp_path / "old", "1\n", "2\n"),
        FileChange(tmp_path / "same", "x", "x"),
    ]


def test_all_are_written(tmp_path: Path, changes: list[FileChange]) -> None:
    assert write_together(changes) == [tmp_path / "new", tmp_path / "old"]
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "new": b"a\r\n",
        "old": b"2\n",
    }
    assert (tmp_path / "old").stat().st_mode & 0o777 == 0o640


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").write_text("1")
    (tmp_path / "link").symlink_to("there/file")
    write_together([FileChange(tmp_path / "link", "1", "2")])
    assert (tmp_path / "link").is_symlink()
    assert texts(tmp_path / "there") == {"file": "2"}


def test_a_file_that_somebody_changed(tmp_path: Path, changes: list[FileChange]) -> None:
    (tmp_path / "old").write_text("other\n")
    with pytest.raises(ProjectError, match="changed by somebody else"):
        write_together(changes)
    assert texts(tmp_path) == {"old": "other\n"}


def test_a_file_that_appeared(tmp_path: Path, changes: list[FileChange]) -> None:
    (tmp_path / "new").write_text("other")
    with pytest.raises(ProjectError, match="changed by somebody else"):
        write_together(changes)
    assert texts(tmp_path) == {"old": "1\n", "new": "other"}


@pytest.mark.parametrize("failing", ["link", "replace", "fsync"])
def test_a_disk_that_fails(
    tmp_path: Path, changes: list[FileChange], failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    owner = Path if failing == "replace" else os
    monkeypatch.setattr(owner, failing, fail)
    with pytest.raises(OSError, match="No space left"):
        write_together(changes)
    monkeypatch.undo()
    assert texts(tmp_path) == {"old": "1\n"}


@pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS])
@pytest.mark.parametrize("renames", [True, False])
def test_a_disk_without_hard_links(
    tmp_path: Path,
    changes: list[FileChange],
    code: int,
    renames: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As vfat, which has the rename that replaces nothing, and shared folders, which have none."""

    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", fail)
    if not renames:
        monkeypatch.setattr(authoring_changes, "renamed", lambda *_: False)
    write_together(changes)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "new": b"a\r\n",
        "old": b"2\n",
    }


@pytest.mark.parametrize("renames", [True, False])
def test_without_hard_links_a_file_that_appears_late_stays(
    tmp_path: Path, changes: list[FileChange], renames: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def appear(*_: object) -> None:
        (tmp_path / "new").write_text("other")
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", appear)
    if not renames:
        monkeypatch.setattr(authoring_changes, "renamed", lambda *_: False)
    with pytest.raises(FileExistsError) as caught:
        write_together(changes)
    assert caught.value.filename == str(tmp_path / "new")
    assert texts(tmp_path) == {"old": "1\n", "new": "other"}


@pytest.mark.parametrize("failing", ["link", "open"])
def test_an_error_names_the_file_that_the_user_knows(
    tmp_path: Path, changes: list[FileChange], failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(temporary: object, *_: object, **__: object) -> None:
        raise OSError(errno.EACCES, "Permission denied", str(temporary))

    monkeypatch.setattr(Path if failing == "open" else os, failing, fail)
    with pytest.raises(PermissionError) as caught:
        write_together(changes)
    assert caught.value.filename == str(tmp_path / "new")


def test_the_second_file_fails(
    tmp_path: Path, changes: list[FileChange], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one was replaced already, and is put back."""
    (tmp_path / "late").write_text("1")
    last = FileChange(tmp_path / "late", "1", "2")
    replace = Path.replace

    def fail(self: Path, target: Path) -> Path:
        if target.name == "late":
            raise OSError(28, "No space left on device")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="No space left"):
        write_together([*changes, last])
    assert texts(tmp_path) == {"old": "1\n", "late": "1"}


def test_reading(tmp_path: Path) -> None:
    assert read_text(tmp_path / "gone") is None
    (tmp_path / "file").write_bytes(b"\xff")
    with pytest.raises(ProjectError, match="not UTF-8"):
        read_text(tmp_path / "file")


def test_the_difference(tmp_path: Path, changes: list[FileChange]) -> None:
    new, old, _ = changes
    assert new.diff("new").splitlines()[:2] == ["--- /dev/null", "+++ new"]
    assert old.diff("old").splitlines() == ["--- old", "+++ old", "@@ -1 +1 @@", "-1", "+2"]
