"""What experiments share, and what the runner says of each: which cause of `causes.py` it tries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from faults.causes import CAUSES
from faults.odd_builds import Project, built, project_in


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for mark in item.iter_markers("cause"):
            (number,) = mark.args
            assert number in CAUSES, f"{item.nodeid}: no cause {number}"
            item.user_properties.append(("cause", number))


@pytest.fixture(scope="session")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package that is right; see `faults.honest.package`."""
    from faults.honest import package  # imports jax

    return package(tmp_path_factory)


@pytest.fixture(scope="session")
def made(run: Path) -> Path:
    """A project that was built; see `faults.odd_builds.built`."""
    return built(run)


@pytest.fixture
def project(made: Path, tmp_path: Path) -> Iterator[Project]:
    """A copy of it to build again, somewhere odd."""
    with project_in(made, tmp_path) as project:
        yield project
