"""Files of the project that somebody edits while a build is at work."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep

import numpy as np
import pytest
from support.projects import ONE_FUNCTION, build, write_project

from aotbuild import load
from aotbuild.build.pack import Package
from aotbuild.errors import SourcesEdited

pytestmark = pytest.mark.process

# It waits where a trace takes long.
CODE = """\
import os
import time
from pathlib import Path

from proj import parts

HERE = Path(__file__).parent
SHIFT = float((HERE / "shift.txt").read_text())
OTHER = float((HERE.parent / "other.txt").read_text())


def f(x):
    Path({started!r}, str(os.getpid())).touch()
    while not os.path.exists({go!r}):
        time.sleep(0.01)
    return x * parts.FACTOR + SHIFT + OTHER
"""
# It writes a module, another one each time, also after it was imported.
WRITES = """\
import os
import time
from pathlib import Path

HERE = Path(__file__).parent
(HERE / "made.py").write_text("FACTOR = 1.0\\n")
(HERE / "made.txt").write_text("1.0")

from proj import made

SHIFT = float((HERE / "made.txt").read_text())


def f(x):
    (HERE / "made.py").write_text(f"FACTOR = 1.0  # {time.time_ns()}\\n")
    (HERE / "new.txt").write_text("1.0")
    os.replace(HERE / "new.txt", HERE / "made.txt")
    return x * made.FACTOR + SHIFT
"""
Edit = Callable[[Path], object]


class Project:
    """A project whose trace waits until somebody edits a file of it."""

    def __init__(self, folder: Path) -> None:
        self.started, self.go = folder / "started", folder / "go"
        self.started.mkdir()
        code = CODE.format(started=str(self.started), go=str(self.go))
        parts = "FACTOR = 2.0\n"
        self.root = write_project(folder / "here", ONE_FUNCTION, code=code, parts=parts)
        (self.root / "proj" / "shift.txt").write_text("1.0")
        (self.root / "other.txt").write_text("1.0")
        self.package = folder / "out" / "_aot"

    def build(self, edit: Edit) -> Package:
        """Build, and edit once both forks trace the function: they have imported its modules."""

        def wait() -> None:
            end = monotonic() + 60
            while len([*self.started.iterdir()]) < 2 and monotonic() < end:
                sleep(0.01)
            edit(self.root)
            self.go.touch()

        thread = threading.Thread(target=wait)
        thread.start()
        try:
            return build(self.root, self.package)
        finally:
            thread.join()

    def refused(self, edit: Edit) -> str:
        with pytest.raises(SourcesEdited) as caught:
            self.build(edit)
        assert not self.package.parent.exists(), "nothing is left"
        return str(caught.value)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("AOTBUILD_STORE", str(tmp_path / "store"))
    return Project(tmp_path)


def text_into(name: str, text: str) -> Edit:
    return lambda root: (root / name).write_text(text)


def other_file(root: Path) -> None:
    """Replace a file as rsync does: the new one has the times of the old one, and its size."""
    path, new = root / "proj" / "parts.py", root / "new"
    new.write_text("FACTOR = 3.0\n")
    os.utime(new, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    new.replace(path)


@pytest.mark.parametrize(
    ("name", "edit"),
    [
        ("proj/parts.py", other_file),
        ("proj/parts.py", lambda root: (root / "proj" / "parts.py").unlink()),
        ("aot.yaml", text_into("aot.yaml", ONE_FUNCTION.replace("f32[2]", "f32[3]"))),
    ],
)
def test_an_edit_of_what_is_compiled(project: Project, name: str, edit: Edit) -> None:
    told, *_ = project.refused(edit).splitlines()
    assert told == f"{name} was edited during the build; nothing was packaged: build again"


def test_the_next_build_has_the_edit(project: Project) -> None:
    """The store has nothing under the name of the new text that was made from the old one."""
    project.refused(text_into("proj/parts.py", "FACTOR = 3.0\n"))
    build(project.root, project.package)
    assert load(project.package).f(np.ones(2, np.float32)).tolist() == [5.0, 5.0]


def test_data_that_is_edited_is_traced_again(project: Project) -> None:
    """It may have been read before or after: the next build does not take what this one made."""
    project.build(text_into("proj/shift.txt", "5.0"))
    found = build(project.root, project.package)
    assert not found.recalled
    assert build(project.root, project.package).recalled


def test_what_the_code_writes_itself_is_no_edit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AOTBUILD_STORE", str(tmp_path / "store"))
    root = write_project(tmp_path / "here", ONE_FUNCTION, code=WRITES)
    build(root, tmp_path / "out" / "_aot")
    assert (root / "proj" / "made.py").exists()


def test_a_project_that_grows_too_large_is_not_edited(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What code writes there, such as a cache, ends the comparison and not the build."""

    def fill(root: Path) -> None:
        monkeypatch.setattr("aotbuild.build.project_files.MOST_FILES", 3)
        (root / "cache.bin").touch()

    assert not project.build(fill).recalled
