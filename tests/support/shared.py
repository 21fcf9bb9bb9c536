"""What is made once in a run of the tests, by whichever xdist worker needs it first."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock


def run_folder(factory: pytest.TempPathFactory) -> Path:
    """Return the temporary folder of the whole run; each xdist worker has its own inside it."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def made_once(folder: Path, make: Callable[[Path], object]) -> Path:
    """Return a folder of the run; the first to ask has `make` fill it while others wait."""
    done = folder.with_name(f"{folder.name}.done")
    with FileLock(folder.with_name(f"{folder.name}.lock")):
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)  # of a `make` that failed
            folder.mkdir()
            make(folder)
            done.touch()
    return folder
