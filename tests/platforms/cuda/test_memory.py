"""A full GPU in one message, as the driver tells of it, a stand-in here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.processes import ROOT

pytestmark = pytest.mark.process

SHORTAGE = """
import sys
from aotbuild.platforms.cuda.client import shortage
print(shortage(sys.argv[1], 0))
"""
BLASLT = "INTERNAL: Failed to initialize BLASLT support"
OUT_OF_MEMORY = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 64 bytes."


def shortage(error: str, *libraries: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", SHORTAGE, error],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(map(str, libraries))},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.rstrip("\n")


def test_the_driver_knows_the_sizes(libraries: Path) -> None:
    assert shortage(BLASLT, libraries) == (
        "GPU 0 has too little free memory\n"
        "  expected memory for it\n"
        "  found    300 MiB free of 143,156 MiB\n"
        "  it said  INTERNAL: Failed to initialize BLASLT support\n"
        "A process that uses jax reserves 75 % of a GPU when it starts: set "
        "XLA_PYTHON_CLIENT_PREALLOCATE=false, or XLA_CLIENT_MEM_FRACTION to a share such as 0.3, "
        "in each process on it. Or choose another GPU with CUDA_VISIBLE_DEVICES."
    )


def test_nobody_can_be_asked() -> None:
    assert "found    a full GPU\n" in shortage(OUT_OF_MEMORY)
    # A library may be missing instead.
    assert shortage(BLASLT) == "None"


def test_other_errors_are_other_errors(libraries: Path) -> None:
    assert shortage("INVALID_ARGUMENT: Executable expected 2", libraries) == "None"
