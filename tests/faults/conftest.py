"""What experiments share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from faults.odd_builds import Project, built, project_in
from support.shared import made_once


@pytest.fixture(scope="session")
def honest(run: Path) -> Path:
    """The `_aot` folder of a package that is right; its one function is `double`."""
    from support import packages  # imports jax

    def make(folder: Path) -> None:
        given = {"x": np.ones(16, np.float32)}
        packages.write(folder, [packages.build("double", lambda x: x * 2, given)])

    return made_once(run / "honest", make) / "_aot"


@pytest.fixture(scope="session")
def made(run: Path) -> Path:
    """A project that was built; see `faults.odd_builds.built`."""
    return built(run)


@pytest.fixture
def project(made: Path, tmp_path: Path) -> Iterator[Project]:
    """A copy of it to build again, somewhere odd."""
    with project_in(made, tmp_path) as project:
        yield project
