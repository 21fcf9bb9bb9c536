"""Whole lines reach the file, whoever writes, is killed, or finds no space."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from aotbuild.watch.recording import first_line
from aotbuild.watch.writer import Writer


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
def test_many_processes(path: Path) -> None:
    lines = [b"%d-%d\n" % (writer, number) for writer in range(4) for number in range(100)]

    def work(number: int) -> None:
        for line in lines[number * 100 : number * 100 + 100]:
            Writer(path).write([line, line])

    for child in [_forked(lambda number=number: work(number)) for number in range(4)]:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    first, *found = path.read_bytes().splitlines(keepends=True)
    assert first == first_line()
    assert sorted(found) == sorted(lines * 2)
    # Lines of one call are adjacent.
    assert found[::2] == found[1::2]


@pytest.mark.process
def test_one_that_is_killed_holds_no_lock(path: Path) -> None:
    def work() -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.write(descriptor, first_line() + b"cut")
        os.kill(os.getpid(), signal.SIGKILL)

    os.waitpid(_forked(work), 0)
    Writer(path).write([b"one\n"])
    assert path.read_bytes() == first_line() + b"one\n"


def _forked(work: Callable[[], None]) -> int:
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work()
        code = 0
    finally:
        os._exit(code)
