"""What experiments share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from faults.odd_builds import Project, built, project_in


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
