"""What holds for all tests: nothing of the user's store or trust; aotbuild has one wheel."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from support.installs import build_wheel, make_venv, pip, tree_of
from support.processes import ROOT
from support.projects import copy_project
from support.shared import made_once, run_folder

# The same examples every time, however slow the machine is; fuzz.py has others.
settings.register_profile(
    "aotbuild",
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("aotbuild")


@pytest.fixture(scope="session", autouse=True)
def _no_store() -> None:
    os.environ["AOTBUILD_STORE"] = "off"


@pytest.fixture(scope="session", autouse=True)
def _no_demand() -> None:
    os.environ.pop("AOTBUILD_TRUST", None)


@pytest.fixture(scope="session", autouse=True)
def _one_compiler() -> None:
    """A second compiler of a small build costs more than it saves; pytest-xdist fills the CPUs."""
    os.environ["AOTBUILD_JOBS"] = "1"


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the whole run, which all xdist workers share."""
    return run_folder(tmp_path_factory)


@pytest.fixture(scope="session", autouse=True)
def _toolchains(run: Path) -> None:
    os.environ["AOTBUILD_TOOLCHAINS"] = str(run / "toolchains")


@pytest.fixture(scope="session")
def links(run: Path) -> Path:
    """A folder with aotbuild's own wheel."""
    return made_once(run / "links", lambda folder: build_wheel(ROOT, folder))


@pytest.fixture(scope="session")
def example_wheel(run: Path, links: Path) -> Path:
    """The wheel of the example project, built as a user does: by pip, in isolation."""

    def make(folder: Path) -> None:
        project = copy_project("../../example_project", folder)
        before = tree_of(project)
        pip(sys.executable, "wheel", "--no-deps", "-w", folder, project, links=links)
        assert tree_of(project) == before, "the build changed the project"

    (wheel,) = made_once(run / "example", make).glob("*.whl")
    return wheel


@pytest.fixture(scope="session")
def example_python(run: Path, links: Path, example_wheel: Path) -> Path:
    """The Python of an environment that pip installed the example's wheel into, and no more."""

    def make(folder: Path) -> None:
        pip(make_venv(folder), "install", "--quiet", example_wheel, links=links)

    return made_once(run / "example-env", make) / "bin" / "python"
