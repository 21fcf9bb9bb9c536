"""A stand-in of NVIDIA's driver, which a C compiler makes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SUPPORT = Path(__file__).parents[2] / "support"


def compiled(folder: Path, source: str, library: str) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler is installed, which makes the driver that is asked")
    output = str(folder / library)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", output, str(SUPPORT / source)], check=True)


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a libcuda.so.1."""
    folder = tmp_path_factory.mktemp("driver")
    compiled(folder, "fake_libcuda.c", "libcuda.so.1")
    return folder
