"""Whole lines reach the file, whoever writes, is killed, or finds no space."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest
from support.processes import run_fresh

from aotbuild.record.call_log import first_line
from aotbuild.record.writer import Writer


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "calls.jsonl"


def test_the_first_line_once(path: Path) -> None:
    Writer(path).write([b"one\n", b"two\n"])
    Writer(path).write([])
    Writer(path).write([b"three\n"])
    assert path.read_bytes() == first_line() + b"one\ntwo\nthree\n"


def test_nothing_to_write(path: Path) -> None:
    Writer(path).write([])
    assert not path.exists()


@pytest.mark.parametrize("cut", [b"x", b"half a line", b"long " * 40_000])
@pytest.mark.parametrize("whole", [b"", b"one\n"])
def test_a_cut_last_line_is_dropped(path: Path, whole: bytes, cut: bytes) -> None:
    path.write_bytes(first_line() + whole + cut)
    Writer(path).write([b"two\n"])
    assert path.read_bytes() == first_line() + whole + b"two\n"


def test_a_cut_first_line(path: Path) -> None:
    path.write_bytes(first_line()[:-3])
    Writer(path).write([b"one\n"])
    assert path.read_bytes() == first_line() + b"one\n"


def test_the_folder_of_the_beginning(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    writer = Writer(Path("calls.jsonl"))
    monkeypatch.chdir("/")
    writer.write([b"one\n"])
    assert path.exists()


def test_a_full_disk_is_told_once(capfd: pytest.CaptureFixture[str]) -> None:
    writer = Writer(Path("/dev/full"))
    for _ in range(3):
        writer.write([b"one\n"])
    expected = "aotbuild: /dev/full: No space left on device; this process records nothing more\n"
    assert capfd.readouterr().err == expected


def test_what_fits_in_part_is_taken_back(
    path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    Writer(path).write([b"one\n"])
    before, real = path.read_bytes(), os.write

    def full(descriptor: int, data: bytes) -> int:
        if len(data) > 4:
            return real(descriptor, data[:4])
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "write", full)
    Writer(path).write([b"two, of which four bytes fit\n"])
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert "No space left on device" in capfd.readouterr().err


def test_a_folder_that_is_gone(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    writer = Writer(path.parent / "gone" / "calls.jsonl")
    writer.write([b"one\n"])
    assert "No such file or directory; this process records nothing" in capfd.readouterr().err


def test_a_standard_error_that_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon has none."""
    monkeypatch.setattr("sys.stderr", None)
    Writer(Path("/dev/full")).write([b"one\n"])


def test_no_locks(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    Writer(path).write([b"one\n"])
    assert path.read_bytes() == first_line() + b"one\n"


@pytest.mark.process
def test_processes_at_once_and_one_that_is_killed(path: Path) -> None:
    run_fresh(PROCESSES, str(path))
    first, *found = path.read_bytes().splitlines(keepends=True)
    assert first == first_line()
    lines = [b"%d-%d\n" % (writer, number) for writer in range(4) for number in range(100)]
    assert sorted(found) == sorted(lines * 2)
    # Lines of one call are adjacent.
    assert found[::2] == found[1::2]


PROCESSES = """
import fcntl, os, signal, sys
from pathlib import Path
from aotbuild.record.call_log import first_line
from aotbuild.record.writer import Writer

path = Path(sys.argv[1])
if not (child := os.fork()):
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.write(descriptor, first_line() + b"cut")
    os.kill(os.getpid(), signal.SIGKILL)
os.waitpid(child, 0)
children = []
for number in range(4):
    if not (child := os.fork()):
        for index in range(100):
            line = b"%d-%d\\n" % (number, index)
            Writer(path).write([line, line])
        os._exit(0)
    children.append(child)
assert all(os.waitpid(child, 0)[1] == 0 for child in children)
"""
