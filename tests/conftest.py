"""What holds for all tests: nothing of the user's store or trust; aotbuild has one wheel."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from support.installs import pip
from support.projects import ROOT

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
def _toolchains(tmp_path_factory: pytest.TempPathFactory) -> None:
    base = tmp_path_factory.getbasetemp()
    # Each xdist worker has a folder of its own in the one of the run.
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    os.environ["AOTBUILD_TOOLCHAINS"] = str(shared / "toolchains")


@pytest.fixture(scope="session")
def links(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with aotbuild's own wheel."""
    folder = tmp_path_factory.mktemp("links")
    pip(sys.executable, "wheel", "--no-deps", "-w", folder, ROOT, links=folder)
    return folder
