"""Signals at any moment of a build: what is there is whole, and nothing else is left.

Python runs a handler soon after its signal, so a moment is an audit event: what the build is about
to do, and has done by then.
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from faults.ended import NEVER, files_in
from support.installs import tree_of
from support.moments import Ended, Moment, leftovers, run_until
from support.projects import ONE_FUNCTION, PYPROJECT, write_project
from support.shared import made_once

from aotbuild.format.temporary import LOCK

pytestmark = pytest.mark.process

# For code of a project: end the process that has started the compiler. The compiler's forks have
# its command line, and one of the two that trace is a fork of the other.
BUILDER = """import os
def end_builder(number):
    of = lambda process, name: open(f"/proc/{process}/{name}").read()
    builder = os.getpid()
    while of(builder, "cmdline") == of("self", "cmdline"):
        builder = int(of(builder, "stat").rpartition(")")[2].split()[1])
    try:
        os.close(os.open(__file__ + ".ended", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(builder, number)
"""

NEVER_COMES = Moment("never", "")
HERE = "/proj/_aot -1"  # the end of a rename to the package's place
BUILDING = [
    Moment("os.mkdir", ".aotbuild-tmp-"),
    Moment("os.mkdir", ".aotbuild-tmp-", 1),
    Moment("open", LOCK),
    Moment("os.mkdir", "/blobs"),
    Moment("open", "/blobs/"),
]
PLACING = [
    Moment("os.rename", HERE),
    Moment("ctypes.dlsym", "renameat2"),
    Moment("shutil.rmtree", "_aot"),
    Moment("os.remove", LOCK),
    Moment("os.rmdir", ".aotbuild-tmp-"),
]
PACKING = [Moment("open", ".pjrt r"), Moment("os.rename", ".whl")]
NO_EXCHANGE = """
from aotbuild.build import placing
placing._exchange = lambda one, other: False
"""


def label(value: object) -> str:
    """Return how an experiment is named."""
    return value.name if isinstance(value, signal.Signals) else str(value)


class Project:
    """A built project, with a store that has everything, and an empty folder for its files."""

    def __init__(self, made: Path, folder: Path) -> None:
        self.folder, self.root = folder, made / "p"
        self.temporary, self.wheels = folder / "temporary", folder / "wheels"
        self.package = self.root / "proj" / "_aot"
        self.store = made / "store"
        for each in (self.temporary, self.wheels):
            each.mkdir(parents=True, exist_ok=True)

    def run(self, moment: Moment, number: int, *arguments: str, **options: Any) -> Ended:
        """Run a command until a moment: a build in place, unless another one is named."""
        chosen = arguments or ("build", "--in-place")
        variables = {"AOTBUILD_STORE": str(self.store)}
        return run_until(
            *(moment, signal.Signals(number), self.root, self.temporary, *chosen),
            **{**variables, **options},
        )

    def left(self) -> list[str]:
        """Return what is left of builds, in any folder."""
        return leftovers(self.root, self.temporary, self.wheels, self.store)


@pytest.fixture(scope="module")
def made(run: Path) -> Path:
    """A project whose package is built, and whose wheel was."""

    def make(folder: Path) -> None:
        root = write_project(folder / "p", ONE_FUNCTION, code="def f(x):\n    return x + 1\n")
        (root / "pyproject.toml").write_text(PYPROJECT)
        project = Project(folder, folder)
        for options in ({}, {"wheel": project.wheels}):
            ended = project.run(NEVER_COMES, signal.SIGTERM, **options)
            assert ended.code == 0, ended.errors

    return made_once(run / "faults-signals", make)


@pytest.fixture
def project(made: Path, tmp_path: Path) -> Iterator[Project]:
    """The project; its package is as it was before the test, and after it."""
    project = Project(made, tmp_path)
    before = tree_of(project.package)
    yield project
    if project.package.exists() is False or tree_of(project.package) != before:
        shutil.rmtree(project.package, ignore_errors=True)
        project.run(NEVER_COMES, signal.SIGTERM)


CASES = [
    *((moment, signal.SIGTERM) for moment in (*BUILDING, *PLACING)),
    (PLACING[1], signal.SIGINT),
    (BUILDING[2], signal.SIGHUP),
]
INTERRUPTED = 130


@pytest.mark.parametrize(("moment", "number"), CASES, ids=label)
def test_a_build_in_place(project: Project, moment: Moment, number: signal.Signals) -> None:
    before = tree_of(project.package)
    ended = project.run(moment, number)
    assert ended.was_reached
    assert ended.code == INTERRUPTED
    assert not [words for words in NEVER if words in ended.errors], ended.errors
    assert project.left() == []
    assert files_in(project.temporary) == set()
    assert tree_of(project.package) == before


HOOK_CASES = [
    *((moment, signal.SIGTERM) for moment in (BUILDING[1], *PACKING)),
    (PACKING[0], signal.SIGINT),
]


@pytest.mark.parametrize(("moment", "number"), HOOK_CASES, ids=label)
def test_a_wheel(project: Project, moment: Moment, number: signal.Signals) -> None:
    """Hatchling builds it, and the hook cleans up; hatchling's own file is hatchling's."""
    ended = project.run(moment, number, wheel=project.wheels)
    assert ended.was_reached
    assert ended.code != 0
    assert project.left() == []
    assert {name.rpartition(".")[2] for name in files_in(project.temporary)} <= {"whl"}


def test_the_hook_leaves_the_handlers_of_the_process_alone(project: Project) -> None:
    """Also one that ignores a signal; and those that it sets are gone at the end."""
    first = (
        "import atexit\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "def tell():\n"
        "    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):\n"
        "        print('handler', signal.getsignal(number))\n"
        "atexit.register(tell)\n"
    )
    ended = project.run(PACKING[0], signal.SIGHUP, wheel=project.wheels, first=first)
    assert (ended.code, ended.was_reached) == (0, True)
    handlers = [line for line in ended.errors.splitlines() if line.startswith("handler")]
    assert handlers[:2] == ["handler 0", "handler 1"]
    assert "default_int_handler" in handlers[2]


LOOPS = {
    "in Python": "while True: pass",
    "in native code": "import ctypes\n    ctypes.PyDLL(None).sleep(600)",
}


@pytest.mark.parametrize("loop", LOOPS)
def test_a_compiler_whose_build_is_killed(made: Path, tmp_path: Path, loop: str) -> None:
    """Its code never ends, and the build has no time to end it: the kernel does."""
    code = f"{BUILDER}def f(x):\n    end_builder(9)\n    {LOOPS[loop]}\n"
    project = Project(made, tmp_path)
    project.root = write_project(tmp_path / "p", ONE_FUNCTION, code=code)
    # It returns when all processes have ended.
    ended = project.run(NEVER_COMES, 9, AOTBUILD_STORE="off")
    assert ended.code == -signal.SIGKILL


@pytest.mark.parametrize("is_stopped", [False, True], ids=["finished", "stopped"])
def test_kill_9_between_two_renames(project: Project, is_stopped: bool) -> None:
    """Where a file system cannot exchange folders: the next build puts the old one back."""
    before = tree_of(project.package)
    ended = project.run(Moment("os.rename", HERE, 1), signal.SIGKILL, first=NO_EXCHANGE)
    assert (ended.was_reached, ended.code) == (True, -signal.SIGKILL)
    assert not project.package.exists()
    following = signal.SIGTERM if is_stopped else signal.SIGKILL
    moment, code = (BUILDING[-1], INTERRUPTED) if is_stopped else (NEVER_COMES, 0)
    assert project.run(moment, following, first=NO_EXCHANGE).code == code
    assert tree_of(project.package) == before
    assert project.left() == []
