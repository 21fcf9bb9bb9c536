"""The package that all recipes serve."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.recipes import build_ranker
from support.shared import made_once


@pytest.fixture(scope="session")
def ranker(run: Path, links: Path) -> Path:
    """A folder with the package's wheel, its project, and aotbuild's own wheel."""
    return made_once(run / "ranker", lambda folder: build_ranker(folder, links))
