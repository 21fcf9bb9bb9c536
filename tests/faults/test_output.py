"""Output that cannot be written, or that would replace what is there.

Full disks, and readers that left. Devices and pipes stay, links lead on, and no input is lost.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from faults.ended import NEVER, assert_done, assert_refused, command, files_in
from faults.odd_builds import Project
from faults.readers import WHEEL, wheel_with
from support.cli import invoke
from support.processes import ROOT, clean_environment

GONE = "gone-1.0-py3-none-any.whl"
# Arguments, and the exit code where the output is written; 6 is a file that cannot be.
COMMANDS = [(["schema"], 6), (["plan", "gone.yaml", "--json"], 3), (["inspect", GONE, "--json"], 6)]


def run_into(stdout: object, arguments: list[str]) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "aotbuild.cli", *arguments],
        stdout=stdout,  # type: ignore[arg-type]
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env=clean_environment(PYTHONPATH=str(ROOT)),
    )
    return done.returncode, done.stderr


# What makes a folder that a build must not replace, out of the `_aot` folder of an earlier build.
OF_USERS: dict[str, Callable[[Path], object]] = {
    "an index of another program": lambda place: (place / "index").write_text("my catalogue"),
    "a file beside the index": lambda place: (place / "notes.txt").write_text("precious"),
    "a link to blobs": lambda place: (
        (place / "blobs").rename(place.parent / "mine"),
        (place / "blobs").symlink_to(place.parent / "mine"),
    ),
}


@pytest.mark.process
@pytest.mark.parametrize("out", ["/dev/null/_aot", "d/" * 3000 + "_aot", "/", ""])
def test_a_place_that_cannot_be(project: Project, out: str) -> None:
    assert_refused(project.build("--out", out))


@pytest.mark.process
@pytest.mark.parametrize("what", [*OF_USERS, "a place inside of a package"])
def test_a_folder_that_no_build_made(project: Project, what: str) -> None:
    place = out = project.package
    shutil.copytree(project.made / "out" / "_aot", place)
    if what in OF_USERS:
        OF_USERS[what](place)
    else:
        out = place / "blobs" / "_aot"
    before = files_in(place)
    assert_refused(project.build("--out", out), "--out: ", codes=[2])
    assert files_in(place) == before


@pytest.mark.process
def test_a_link_in_the_place_of_a_package(project: Project) -> None:
    """It stays, and what it leads to is replaced."""
    shutil.copytree(project.made / "out" / "_aot", project.package)
    link = project.folder / "link"
    link.symlink_to(project.package)
    before = (project.package / "index").stat().st_ino
    assert_done(project.build("--out", link))
    assert link.is_symlink()
    assert (project.package / "index").stat().st_ino != before


@pytest.mark.process
@pytest.mark.parametrize(("arguments", "code"), COMMANDS, ids=[" ".join(a) for a, _ in COMMANDS])
def test_a_full_disk_behind_stdout(arguments: list[str], code: int) -> None:
    with Path("/dev/full").open("w") as full:
        found, text = run_into(full, arguments)
    assert not [words for words in NEVER if words in text], text
    assert text.endswith("stdout: No space left on device\n")
    assert found == code


# --- what is there --------------------------------------------------------------------------------

MANIFEST = (
    "version: 1\npackage: demo\nfunctions:\n  f:\n    call: demo:f\n    args: [{x: 'f32[4]'}]\n"
)
CALLS = '{"kind":"call log","version":1}\n'
# A command that writes a file where it is told to.
WRITER = ("inspect", WHEEL, "--html")


@pytest.fixture
def here(tmp_path: Path, honest: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a wheel, a package, a module, a manifest and a recording."""
    monkeypatch.chdir(tmp_path)
    wheel_with(tmp_path / WHEEL, honest)
    shutil.copytree(honest, tmp_path / "_aot")
    (tmp_path / "model.py").write_text("def f(x):\n    return x\n")
    (tmp_path / "aot.yaml").write_text(MANIFEST)
    (tmp_path / "calls.jsonl").write_text(CALLS)
    return tmp_path


def written(here: Path) -> bytes:
    """Return what the command writes to a file."""
    assert_done(invoke(*WRITER, here / "plain"))
    data = (here / "plain").read_bytes()
    assert data
    return data


def test_a_link_leads_on(here: Path) -> None:
    data = written(here)
    (here / "sub").mkdir()
    (here / "sub/old").touch()
    for target in ("sub/old", "sub/new"):
        (here / "link").symlink_to(target)
        assert_done(invoke(*WRITER, "link"))
        assert (here / target).read_bytes() == data
        assert (here / "link").is_symlink()
        (here / "link").unlink()


@pytest.mark.process
@pytest.mark.parametrize("out", ["/dev/stdout", "/proc/self/fd/1", "link"])
def test_stdout_by_its_name(out: str, here: Path) -> None:
    data = written(here)
    (here / "link").symlink_to("/proc/self/fd/1")
    ended = command(*WRITER, out, cwd=here)
    assert_done(ended)
    assert ended.stdout.encode().startswith(data)
    (here / "file").write_text("first\n")
    with (here / "file").open("ab") as file:
        done = subprocess.run(
            [sys.executable, "-m", "aotbuild.cli", *WRITER, out],
            cwd=here,
            env=clean_environment(PYTHONPATH=str(ROOT)),
            stdout=file,
            check=False,
        )
    assert done.returncode == 0
    assert (here / "file").read_bytes().startswith(b"first\n" + data)
    assert (here / "link").is_symlink()


@pytest.mark.parametrize("other", ["aot.yaml", WHEEL, "model.py"])
def test_a_call_log_replaces_only_a_call_log(other: str, here: Path) -> None:
    before = (here / other).read_bytes()
    ended = invoke("record", "--log", other, "--", "true")
    assert_refused(ended, "is there already and is no call log", codes=[6])
    assert (here / other).read_bytes() == before
