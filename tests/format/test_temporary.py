"""Temporary folders: removed at the end, and by the next process if their own was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from support.cli import run
from support.projects import MANIFEST, ONE_FUNCTION, write_project

from aotbuild.format import temporary
from aotbuild.format.temporary import remove_abandoned, temporary_folder

KILLED = """
import os, signal, sys
from pathlib import Path
from aotbuild.format.temporary import temporary_folder
with temporary_folder(Path(sys.argv[1])) as folder:
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "file").touch()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def abandon(parent: Path) -> Path:
    """Leave a folder behind as a killed process does; return it."""
    before = set(parent.iterdir())
    done = subprocess.run([sys.executable, "-c", KILLED, str(parent)])
    assert done.returncode == -signal.SIGKILL
    (left,) = set(parent.iterdir()) - before
    return left


def test_those_of_a_running_process_stay(tmp_path: Path) -> None:
    with temporary_folder(tmp_path) as one, temporary_folder(tmp_path) as other:
        (one / "file").touch()
        remove_abandoned(tmp_path)
        assert (one / "file").exists()
        assert other.exists()


@pytest.mark.process
def test_those_of_a_killed_process_are_removed_by_the_next(tmp_path: Path) -> None:
    left = abandon(tmp_path)
    with temporary_folder(tmp_path) as folder:
        assert not left.exists()
        assert folder.exists()


def test_one_that_was_not_locked_yet_is_removed_if_empty(tmp_path: Path) -> None:
    """Its process was killed between two lines. A process that still runs makes another."""
    with temporary_folder(tmp_path) as folder:
        empty, full = folder.with_name(f"{folder.name}-1"), folder.with_name(f"{folder.name}-2")
        empty.mkdir()
        full.mkdir()
        (full / "file").touch()
        remove_abandoned(tmp_path)
        assert not empty.exists()
        assert full.exists()
        day_ago = time.time() - 25 * 3600
        os.utime(full, (day_ago, day_ago))
        remove_abandoned(tmp_path)
        assert not full.exists()  # written into after it was removed
        assert folder.exists()


def test_a_folder_taken_for_abandoned_too_early_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, made = Path.mkdir, []

    def removed_at_once(folder: Path, mode: int = 0o777) -> None:
        made.append(folder)
        real(folder, mode)
        if len(made) == 1:
            folder.rmdir()

    monkeypatch.setattr(Path, "mkdir", removed_at_once)
    with temporary_folder(tmp_path) as folder:
        assert folder == made[1]


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can tell whether it is abandoned, so it stays."""

    def unsupported(*_: object) -> None:
        raise OSError(95, os.strerror(95))

    monkeypatch.setattr(temporary.fcntl, "flock", unsupported)
    with temporary_folder(tmp_path) as folder:
        remove_abandoned(tmp_path)
        assert folder.exists()
    assert not folder.exists()


@pytest.mark.process
def test_commands_without_a_folder_for_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They need none, or say so: as in a container whose file systems are all read-only."""

    def none_is_usable() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp', '/var/tmp']")

    project = write_project(tmp_path / "root", ONE_FUNCTION, code="def f(x):\n    return x + 1\n")
    monkeypatch.setattr(tempfile, "gettempdir", none_is_usable)
    monkeypatch.setenv("AOTBUILD_STORE", "off")
    run("build", project / MANIFEST, "--out", tmp_path / "_aot")
    run("verify", tmp_path / "_aot")
    program = (*("--", sys.executable, "-c"), "import jax; jax.jit(abs)(1)")
    run("record", "--log", tmp_path / "log", *program)
    said = run("record", "--out", tmp_path / "aot.yaml", *program, code=6).stderr
    assert said == (
        "no folder for temporary files\n"
        "  expected one that can be written: what this needs until it ends goes there\n"
        "  found    '/tmp', '/var/tmp', all read-only\n"
        "Set TMPDIR to a folder that can be written, such as /dev/shm.\n"
    )
