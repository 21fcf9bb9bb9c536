"""A project that was built once, and copies of it to build in odd places."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from faults.ended import assert_done, command
from support.cli import invoke
from support.installs import tree_of
from support.moments import leftovers
from support.processes import ROOT
from support.projects import ONE_FUNCTION, PYPROJECT, write_project
from support.shared import made_once

CODE = "def f(x):\n    return x + 1\n"


def built(run: Path) -> Path:
    """Return a folder with a project `p` that was built into `out`, with a store."""

    def make(folder: Path) -> None:
        root = write_project(folder / "p", ONE_FUNCTION, code=CODE)
        (root / "pyproject.toml").write_text(PYPROJECT)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AOTBUILD_STORE", str(folder / "store"))
            patch.chdir(root)
            assert_done(invoke("build", "--out", folder / "out" / "_aot"))

    return made_once(run / "faults-environments", make)


class Project:
    """A copy of the project, whose builds take everything from the store."""

    def __init__(self, made: Path, folder: Path) -> None:
        self.made, self.folder = made, folder
        self.root = Path(shutil.copytree(made / "p", folder / "p"))
        self.package = folder / "out" / "_aot"

    def build(self, *arguments: object) -> Any:
        """Build in this process."""
        return invoke("build", *(arguments or ("--out", self.package)))

    def assert_built(self, package: Path | None = None) -> None:
        """Check that the package is that of any other build, and nothing else is left."""
        assert tree_of(package or self.package) == tree_of(self.made / "out" / "_aot")
        assert leftovers(self.folder) == []

    def run(self, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run `aotbuild ARGUMENTS` in a process of its own."""
        store = {"AOTBUILD_STORE": str(self.made / "store")}
        return command(*arguments, **{"cwd": self.root, **store, **options})


@contextmanager
def project_in(made: Path, folder: Path) -> Iterator[Project]:
    """A copy of what `built` made; the process is in it, and has its store."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AOTBUILD_STORE", str(made / "store"))
        project = Project(made, folder)
        patch.chdir(project.root)
        yield project
        os.chdir(ROOT)  # before the tests' own folder, which may be gone
