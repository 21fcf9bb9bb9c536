"""Index files: a large one is read in parts; what changes on disk is refused, never believed."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from support.records import HEADER, make_function, make_record

from aotbuild.errors import InvalidIndex
from aotbuild.format.index import Index, write_index
from aotbuild.format.record import Record
from aotbuild.runtime import checked_blobs as index_file
from aotbuild.runtime.checked_blobs import DirectorySource, open_index

RECORDS = [make_record(batch=batch) for batch in range(1, 41)]
DATA = write_index(HEADER, [make_function()], RECORDS)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of an index that counts as a large one."""
    monkeypatch.setattr(index_file, "_SMALL", 0)
    (tmp_path / "index").write_bytes(DATA)
    return tmp_path / "index"


def opened(path: Path) -> Index:
    return open_index(DirectorySource(path.parent))


def by_key(index: Index, record: Record) -> list[Record]:
    return index.records("f", record.signature.key())


def test_opening_and_a_lookup_read_only_what_they_need(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, amounts = os.pread, list[int]()

    def counted(descriptor: int, size: int, offset: int) -> bytes:
        amounts.append(size)
        return read(descriptor, size, offset)

    monkeypatch.setattr(os, "pread", counted)
    index = opened(path)
    assert sum(amounts) < index._objects + 5000
    amounts.clear()
    assert by_key(index, RECORDS[7]) == [RECORDS[7]]
    assert sum(amounts) < 2000


def test_a_file_that_was_replaced_is_read_as_it_was(path: Path) -> None:
    index = opened(path)
    (path.parent / "new").write_bytes(write_index(HEADER, [], []))
    (path.parent / "new").replace(path)
    assert by_key(index, RECORDS[0]) == [RECORDS[0]]
    assert opened(path).row_count == 0


def test_a_file_that_was_written_over_is_refused(path: Path) -> None:
    index = opened(path)
    path.write_bytes(DATA.replace(b'"flops":2.0', b'"flops":3.0'))
    with pytest.raises(InvalidIndex, match="expected SHA-256"):
        by_key(index, RECORDS[0])
    assert index.function("f") == make_function()


def test_rows_are_those_that_were_checked(path: Path) -> None:
    """Line 2 vouches for what was read once; what the file says later does not count."""
    index = opened(path)
    other = write_index(HEADER, [make_function()], [make_record(batch=9)] * 40)
    path.write_bytes(other[: index._objects] + DATA[index._objects :])
    assert by_key(index, RECORDS[3]) == [RECORDS[3]]
    assert index.start == DATA[: len(index.start)]


@pytest.mark.parametrize("size", [0, 200, len(DATA) - 1])
def test_a_file_that_was_cut_short_is_refused(path: Path, size: int) -> None:
    index = opened(path)
    os.truncate(path, size)
    with pytest.raises(InvalidIndex):
        index.records("f")
    with pytest.raises(InvalidIndex):
        opened(path)


def test_short_reads_are_put_together(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, at: read(fd, min(size, 100), at))
    assert opened(path).records("f") == Index.open(DATA, "index").records("f")


def test_the_file_is_closed_with_the_index(path: Path) -> None:
    assert not any(link == str(path) for link in _open_files())
    index = opened(path)
    assert str(path) in _open_files()
    del index
    gc.collect()
    assert str(path) not in _open_files()


def _open_files() -> list[str]:
    return list(_links(Path("/proc/self/fd")))


def _links(folder: Path) -> Iterator[str]:
    for link in folder.iterdir():
        with suppress(OSError):  # the one that lists them is closed by now
            yield str(link.readlink())
