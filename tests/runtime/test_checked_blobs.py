"""Blobs and indexes: whatever is wrong with the bytes is found before anything uses them."""

from __future__ import annotations

from pathlib import Path

import pytest

from aotbuild.errors import DamagedBlob
from aotbuild.format.canonical import sha256_hex
from aotbuild.format.index import write_index
from aotbuild.format.record import Blob
from aotbuild.runtime.checked_blobs import DirectorySource, open_index, read_blob

DATA = b"executable" * 100
BLOB = Blob("pjrt", sha256_hex(DATA), len(DATA))
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1000\n"


@pytest.fixture
def source(tmp_path: Path) -> DirectorySource:
    (tmp_path / "blobs").mkdir()
    (tmp_path / BLOB.path).write_bytes(DATA)
    (tmp_path / "index").write_bytes(write_index({}, [], []))
    return DirectorySource(tmp_path)


def flip(data: bytes) -> bytes:
    return data[:500] + bytes([data[500] ^ 1]) + data[501:]


def test_a_whole_blob(source: DirectorySource) -> None:
    assert read_blob(source, BLOB) == DATA


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (DATA[:-1], "999 bytes"),
        (b"", "0 bytes"),
        (DATA + b"x", "more than 1000 bytes"),
        (flip(DATA), "1000 bytes with SHA-256"),
        (b"swapped!!!" * 100, "1000 bytes with SHA-256"),
        (LFS, "a Git LFS pointer"),
    ],
)
def test_a_damaged_blob(source: DirectorySource, tmp_path: Path, data: bytes, found: str) -> None:
    (tmp_path / BLOB.path).write_bytes(data)
    with pytest.raises(DamagedBlob, match=found) as caught:
        read_blob(source, BLOB)
    assert caught.value.place.endswith(BLOB.path)
    assert BLOB.sha256 in caught.value.expected
    assert ("git lfs pull" in str(caught.value)) == (data == LFS)


def test_a_missing_blob(source: DirectorySource, tmp_path: Path) -> None:
    (tmp_path / BLOB.path).unlink()
    with pytest.raises(DamagedBlob, match="found    no such file"):
        read_blob(source, BLOB)


def test_permission_denied(source: DirectorySource, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(source, "read", refuse)
    with pytest.raises(DamagedBlob, match="Permission denied"):
        read_blob(source, BLOB)


class TestIndex:
    def test_a_git_lfs_pointer(self, source: DirectorySource, tmp_path: Path) -> None:
        (tmp_path / "index").write_bytes(LFS)
        with pytest.raises(DamagedBlob, match="git lfs pull"):
            open_index(source)
